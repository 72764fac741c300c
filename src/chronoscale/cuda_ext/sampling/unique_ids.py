"""Unique ids of a batch, and the compressed triples of FAST (section 5). Needs no torch."""

from __future__ import annotations

from ctypes import CDLL
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import BAD_ARGUMENT, INT32_LIMIT
from chronoscale.cuda_ext.native.loader import cpu_library, require_success
from chronoscale.cuda_ext.reference import unique_ids as unique_ids_reference
from chronoscale.errors import UserError


class CompressedSlots(NamedTuple):
    """Sampled slots of R roots with each id once, as the native kernel returns them: slot j holds unique[inverse[j]].

    Root i's slots are indptr[i] to indptr[i + 1] - 1. They are uni_ID, inv_Idx and ind_ptr of FAST, section 5: rows to send once each, and
    a CSR matrix [R, U] whose columns are places among them.
    """

    unique: NDArray[np.int32]  # [U], ascending
    inverse: NDArray[np.int64]  # [n]
    indptr: NDArray[np.int64]  # [R + 1]


def unique_ids(ids: NDArray[np.int32], threads: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the unique ids, ascending, int32 [U], and the place of each of ids [n] among them, int64 [n], by a native kernel.

    This is `np.unique` with its inverse, in time O(n), for ids that are not negative; without the native library NumPy does it. threads 0:
    as many as set_threads allows. Raises UserError for ids that are not contiguous int32 [n], and for a negative one; MachineError when
    memory runs out.
    """
    _require_ids(ids, 1, threads)
    if (library := cpu_library()) is None:
        return unique_ids_reference.unique_ids(ids)
    return _native(library, ids, None, None, threads)


def compress_slots(ids: NDArray[np.int32], counts: NDArray[np.int32], threads: int = 0) -> CompressedSlots:
    """Find the ids that a sampler's slots repeat, by a native kernel, so that each row is sent once (FAST, section 5).

    Of ids [R, K] the first counts[i] of row i: ids and counts are `SampledNeighbors.neighbor` or `.event` and its `counts`; what other
    slots hold is not read. Raises as `unique_ids`, and UserError for counts that are not int32 [R] from 0 to K.
    """
    _require_ids(ids, 2, threads)
    rows, width = ids.shape
    fits = counts.dtype == np.int32 and counts.shape == (rows,) and counts.flags.c_contiguous and counts.flags.aligned
    if not fits or (rows and not 0 <= counts.min() <= counts.max() <= width):
        raise UserError(f"compressed: counts are {counts.dtype} {list(counts.shape)}; expected int32 [{rows}] from 0 to {width}")
    if (library := cpu_library()) is None:
        flat, indptr = unique_ids_reference.filled_slots(ids, counts)
        _require_ids(flat, 1, threads)
        return CompressedSlots(*unique_ids_reference.unique_ids(flat), indptr)
    indptr = np.empty(rows + 1, np.int64)
    return CompressedSlots(*_native(library, ids, counts, indptr, threads), indptr)


def _native(
    library: CDLL, ids: NDArray[np.int32], counts: NDArray[np.int32] | None, indptr: NDArray[np.int64] | None, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Call the native kernel on ids [n], or on the first counts[i] of row i of ids [R, K], where it also writes indptr [R + 1]."""
    rows, width = ids.shape if counts is not None else (len(ids), 1)
    slots = ids.size if counts is None else int(counts.sum())
    unique, inverse, unique_count = np.empty(slots, np.int32), np.empty(slots, np.int64), np.empty(1, np.int64)
    inputs = (rows, width, ids.ctypes.data, None if counts is None else counts.ctypes.data, threads)
    outputs = (unique.ctypes.data, inverse.ctypes.data, None if indptr is None else indptr.ctypes.data, unique_count.ctypes.data)
    if (status := library.cs_distinct(*inputs, *outputs)) == BAD_ARGUMENT:
        raise UserError("distinct: an id is negative")
    require_success("distinct", status)
    return unique[: unique_count[0]].copy(), inverse  # no more is kept than there is


def _require_ids(ids: NDArray[np.int32], dimensions: int, threads: int) -> None:
    """Raise UserError unless ids lie in memory as the kernel reads them; where there is no library, for a negative one, too."""
    readable = ids.dtype == np.int32 and ids.dtype.isnative and ids.ndim == dimensions and ids.flags.c_contiguous and ids.flags.aligned
    if not readable or ids.size >= INT32_LIMIT or not 0 <= index(threads) < INT32_LIMIT:
        expected = f"contiguous int32 {['[n]', '[R, K]'][dimensions - 1]}, fewer than 2^31"
        raise UserError(
            f"distinct: ids are {ids.dtype.str} {list(ids.shape)}, threads={threads}; expected {expected}, threads not negative"
        )
    if cpu_library() is None and dimensions == 1 and ids.min(initial=0) < 0:
        raise UserError("distinct: an id is negative")
