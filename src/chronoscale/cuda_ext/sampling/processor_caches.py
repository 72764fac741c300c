"""Model of set-associative processor caches: which memory accesses hit. Needs no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT, cpu_library_or_warn
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.cuda_ext.reference import processor_caches as processor_caches_reference
from chronoscale.errors import UserError


def hits(line: NDArray[np.int64], cache: NDArray[np.int32], caches: int, sets: int, ways: int) -> NDArray[np.bool_]:
    """Simulate LRU caches of processors over n memory accesses by a native function, in their order; return which hit: bool [n].

    For models of what a neighbour sampler finds in its CPU's caches, and a kernel in its GPU's. line int64 [n]: the cache line of memory
    that is accessed; cache int32 [n]: the cache that is read. Each of the `caches` caches has `sets` sets of `ways` lines; a line lies in
    set line % sets, and replaces the one there that was used least recently. All are empty at first.

    Raises UserError for arrays of another kind, lines and caches out of range, and 2^31 lines or more in all caches.
    """
    line, cache = np.ascontiguousarray(line), np.ascontiguousarray(cache)
    fits = line.dtype == np.int64 and cache.dtype == np.int32 and line.ndim == 1 and cache.shape == line.shape
    if not fits or min(caches, sets, ways) < 1 or caches * sets * ways >= INT32_LIMIT:
        raise UserError(
            f"caches: line {line.dtype} {list(line.shape)}, cache {cache.dtype} {list(cache.shape)}, {caches} caches of {sets} sets of "
            f"{ways}; expected int64 [n], int32 [n], at least one of each and fewer than 2^31 lines"
        )
    if len(line) and not (line.min() >= 0 and 0 <= cache.min() <= cache.max() < caches):
        raise UserError(f"caches: lines from {line.min()} on, caches {cache.min()} to {cache.max()}; expected from 0 on, 0 to {caches - 1}")
    hit = np.empty(len(line), np.uint8)
    if (library := cpu_library_or_warn("caches are modelled")) is None:
        processor_caches_reference.hits(line, cache, sets, ways, hit)
    else:
        require_success("caches", library.cs_caches(len(line), line.ctypes.data, cache.ctypes.data, caches, sets, ways, hit.ctypes.data))
    return hit.view(np.bool_)
