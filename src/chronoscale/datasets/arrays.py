"""Array types of the containers, checks of dtype, shape and content, and care for the pages of mapped arrays."""

from __future__ import annotations

import mmap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
UInt8 = NDArray[np.uint8]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Numbers = NDArray[np.number[Any]]

MAX_NODES = 2**31 - 1  # node ids are int32
SCAN_BYTES = 1 << 20  # bytes that are looked at together, so that no check copies a column


def require(array: NDArray[Any] | None, name: str, dtypes: str, shape: tuple[int | None, ...]) -> None:
    """Check the dtype and shape of an array of a dataset, before anything reads it; None, an absent array, passes.

    name: what error messages call the array, such as `Signal.values`. dtypes: those allowed, with spaces between, such as "int64 float64".
    shape: one length an axis, None for any. Raises UserError.
    """
    if array is None:
        return
    if not isinstance(array, np.ndarray) or array.dtype.name not in dtypes.split():
        kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        raise UserError(f"{name}: expected an array of {' or '.join(dtypes.split())}, got {kind}")
    if array.ndim != len(shape) or any(want is not None and want != got for want, got in zip(shape, array.shape, strict=True)):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise UserError(f"{name}: expected shape ({expected}), got {array.shape}")


def require_counts(counts: DataclassInstance, shape: tuple[int, ...]) -> None:
    """Check, when a dataset's counts (such as edges of each snapshot) are made, that every array in the dataclass is non-negative int64 of
    `shape`; fields that are no arrays pass. Raises ValueError naming the field."""
    for entry in fields(counts):
        column = getattr(counts, entry.name)
        if isinstance(column, np.ndarray) and (column.shape != shape or column.dtype != np.int64 or (column < 0).any()):
            raise ValueError(f"{type(counts).__name__}.{entry.name} must be non-negative int64 {list(shape)}")


def require_ids(ids: NDArray[Any], name: str, num_nodes: int) -> None:
    """Check that node ids of a dataset lie in 0 .. num_nodes - 1. name: what the error calls the array. Raises UserError with the first
    that does not."""
    if ids.size and (ids.min() < 0 or ids.max() >= num_nodes):
        at = int(np.argmax((ids < 0) | (ids >= num_nodes)))
        raise UserError(f"{name}[{at}]: node id {ids[at]} is outside 0..{num_nodes - 1}")


def require_finite(array: NDArray[Any] | None, name: str) -> None:
    """Check that an array of a dataset, of which None passes, has no NaN or infinity; it is read a megabyte at a time. name: what the error
    calls it. Raises UserError."""
    step = 1 if array is None else max(SCAN_BYTES // max(array[:1].nbytes, 1), 1)
    for begin in range(0, 0 if array is None else len(array), step):
        if array is not None and not np.isfinite(array[begin : begin + step]).all():
            raise UserError(f"{name}: not finite")


def find_not_finite(array: NDArray[Any]) -> int | None:
    """Find the index of the first NaN or infinity in a column [n] of a dataset; None where all are finite. A column may be mapped: a
    megabyte is read at a time."""
    if array.dtype.kind in "iu":
        return None
    for begin in range(0, len(array), SCAN_BYTES // 8):
        finite = np.isfinite(array[begin : begin + SCAN_BYTES // 8])
        if not finite.all():
            return begin + int(np.argmin(finite))
    return None


def count_falls(column: NDArray[Any]) -> tuple[int, int]:
    """Count the entries of a column [n] (mostly times) that are smaller than the one before them, and find the index of the first: (count,
    index), (0, 0) where the column never falls. A column may be mapped: a megabyte is read at a time."""
    count, first = 0, 0
    for begin in range(1, len(column), SCAN_BYTES // 8):
        end = min(begin + SCAN_BYTES // 8, len(column))
        below = column[begin:end] < column[begin - 1 : end - 1]
        if below.any():
            first = first or begin + int(np.argmax(below))
            count += int(np.count_nonzero(below))
    return count, first


def require_num_nodes(num_nodes: int) -> None:
    """Check that a dataset's number of nodes can be counted in int32 ids. Raises UserError below 0 and above 2^31 - 1."""
    if not 0 <= num_nodes <= MAX_NODES:
        raise UserError(f"num_nodes: expected 0..{MAX_NODES}, got {num_nodes}")


def release(array: NDArray[Any] | None) -> None:
    """Give the memory of a memory-mapped array's pages back to the system, after a pass over a dataset larger than memory; the file keeps
    the values, and they are read again when they are needed. An array that is not mapped, or that may be written, stays as it is, as does
    None."""
    if array is not None and not array.flags.writeable:  # pages of a private map may have been written
        _advise(array, mmap.MADV_DONTNEED)


def read_in_any_order(array: NDArray[Any] | None) -> None:
    """Tell the system that rows of a memory-mapped array will be read here and there: it then reads no pages ahead, which on a file larger
    than memory drive out those that are needed. An array that is not mapped stays as it is, as does None.
    """
    _advise(array, mmap.MADV_RANDOM)


def _advise(array: NDArray[Any] | None, advice: int) -> None:
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(advice)


def prefetch_rows(array: NDArray[Any], begin: int, end: int) -> None:
    """Ask the system to read rows begin .. end - 1 of a memory-mapped array from disk in the background (madvise), before a loop over a
    dataset comes to them. An array that is not mapped stays as it is."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap) and end > begin:
        first = array.offset % mmap.ALLOCATIONGRANULARITY + begin * array[:1].nbytes
        page = first - first % mmap.PAGESIZE
        array.base.madvise(mmap.MADV_WILLNEED, page, first - page + (end - begin) * array[:1].nbytes)
