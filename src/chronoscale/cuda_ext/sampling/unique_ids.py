"""Distinct: the different ones of a batch's ids, and the compressed triples of FAST (section 5). Nothing here needs torch."""

from __future__ import annotations

from ctypes import CDLL
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT
from chronoscale.cuda_ext.native.loader import cpu_library, require_success
from chronoscale.cuda_ext.reference import unique_ids as unique_ids_reference
from chronoscale.errors import UserError

_ARGUMENT = 1


class CompressedSlots(NamedTuple):
    """The filled slots of R roots, root by root: slot j holds unique[inverse[j]], root i's are indptr[i] to indptr[i + 1] - 1.

    uni_ID, inv_Idx and ind_ptr of FAST, section 5: rows to send once each, and a CSR matrix [R, U] whose columns are places among them.
    """

    unique: NDArray[np.int32]  # [U], ascending
    inverse: NDArray[np.int64]  # [n]
    indptr: NDArray[np.int64]  # [R + 1]


def unique_ids(ids: NDArray[np.int32], threads: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The different ones of ids [n], none negative, ascending, int32 [U], and the place of each among them, int64 [n].

    As `np.unique` with its inverse, in time O(n); without the library in NumPy. threads 0: as many as set_threads allows. Raises UserError
    for ids that are not contiguous int32 [n], and for a negative one; MachineError when memory runs out.
    """
    _given(ids, 1, threads)
    if (library := cpu_library()) is None:
        return unique_ids_reference.unique_ids(ids)
    return _native(library, ids, None, None, threads)


def compress_slots(ids: NDArray[np.int32], counts: NDArray[np.int32], threads: int = 0) -> CompressedSlots:
    """The triple of a sampler's slots: of ids [R, K] the first counts[i] of row i. `Sampled.neighbor` or `.event` with its `counts`.

    What stands in other slots is not read. Raises as `distinct`, and UserError for counts that are not int32 [R] from 0 to K.
    """
    _given(ids, 2, threads)
    rows, width = ids.shape
    right = counts.dtype == np.int32 and counts.shape == (rows,) and counts.flags.c_contiguous and counts.flags.aligned
    if not right or (rows and not 0 <= counts.min() <= counts.max() <= width):
        raise UserError(f"compressed: counts are {counts.dtype} {list(counts.shape)}; expected int32 [{rows}] from 0 to {width}")
    if (library := cpu_library()) is None:
        flat, indptr = unique_ids_reference.filled_slots(ids, counts)
        _given(flat, 1, threads)
        return CompressedSlots(*unique_ids_reference.unique_ids(flat), indptr)
    indptr = np.empty(rows + 1, np.int64)
    return CompressedSlots(*_native(library, ids, counts, indptr, threads), indptr)


def _native(
    library: CDLL, ids: NDArray[np.int32], counts: NDArray[np.int32] | None, indptr: NDArray[np.int64] | None, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    rows, width = ids.shape if counts is not None else (len(ids), 1)
    slots = ids.size if counts is None else int(counts.sum())
    unique, place, found = np.empty(slots, np.int32), np.empty(slots, np.int64), np.empty(1, np.int64)
    given = (rows, width, ids.ctypes.data, None if counts is None else counts.ctypes.data, threads)
    made = (unique.ctypes.data, place.ctypes.data, None if indptr is None else indptr.ctypes.data, found.ctypes.data)
    if (status := library.cs_distinct(*given, *made)) == _ARGUMENT:
        raise UserError("distinct: an id is negative")
    require_success("distinct", status)
    return unique[: found[0]].copy(), place  # no more is kept than there is


def _given(ids: NDArray[np.int32], dimensions: int, threads: int) -> None:
    """Raises UserError unless ids lie in memory as the kernel takes them for; where there is no library, for a negative one, too."""
    sound = ids.dtype == np.int32 and ids.dtype.isnative and ids.ndim == dimensions and ids.flags.c_contiguous and ids.flags.aligned
    if not sound or ids.size >= INT32_LIMIT or not 0 <= index(threads) < INT32_LIMIT:
        wanted = f"contiguous int32 {['[n]', '[R, K]'][dimensions - 1]}, fewer than 2^31"
        raise UserError(f"distinct: ids are {ids.dtype.str} {list(ids.shape)}, threads={threads}; expected {wanted}, threads not negative")
    if cpu_library() is None and dimensions == 1 and ids.min(initial=0) < 0:
        raise UserError("distinct: an id is negative")
