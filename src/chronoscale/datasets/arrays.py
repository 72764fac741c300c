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
    """Check dtype (one of the space-separated `dtypes`) and shape (None: any length). An absent array passes."""
    if array is None:
        return
    if not isinstance(array, np.ndarray) or array.dtype.name not in dtypes.split():
        kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        raise UserError(f"{name}: expected an array of {' or '.join(dtypes.split())}, got {kind}")
    if array.ndim != len(shape) or any(want is not None and want != got for want, got in zip(shape, array.shape, strict=True)):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise UserError(f"{name}: expected shape ({expected}), got {array.shape}")


def require_counts(counts: DataclassInstance, shape: tuple[int, ...]) -> None:
    """Check that every array of a table of counts is non-negative int64 of one shape. Raises ValueError."""
    for entry in fields(counts):
        column = getattr(counts, entry.name)
        if isinstance(column, np.ndarray) and (column.shape != shape or column.dtype != np.int64 or (column < 0).any()):
            raise ValueError(f"{type(counts).__name__}.{entry.name} must be non-negative int64 {list(shape)}")


def require_ids(ids: NDArray[Any], name: str, num_nodes: int) -> None:
    """Check that node ids lie in [0, num_nodes)."""
    if ids.size and (ids.min() < 0 or ids.max() >= num_nodes):
        at = int(np.argmax((ids < 0) | (ids >= num_nodes)))
        raise UserError(f"{name}[{at}]: node id {ids[at]} is outside 0..{num_nodes - 1}")


def require_finite(array: NDArray[Any] | None, name: str) -> None:
    """Check that there is no NaN or infinity, some megabytes at a time. An absent array passes."""
    step = 1 if array is None else max(SCAN_BYTES // max(array[:1].nbytes, 1), 1)
    for begin in range(0, 0 if array is None else len(array), step):
        if array is not None and not np.isfinite(array[begin : begin + step]).all():
            raise UserError(f"{name}: not finite")


def find_not_finite(array: NDArray[Any]) -> int | None:
    """Place of the first NaN or infinity of a column, some megabytes at a time."""
    if array.dtype.kind in "iu":
        return None
    for begin in range(0, len(array), SCAN_BYTES // 8):
        finite = np.isfinite(array[begin : begin + SCAN_BYTES // 8])
        if not finite.all():
            return begin + int(np.argmin(finite))
    return None


def count_falls(column: NDArray[Any]) -> tuple[int, int]:
    """Count the entries that are below the one before them, and find the place of the first that is (0 where there is none); some megabytes
    at a time."""
    count, first = 0, 0
    for begin in range(1, len(column), SCAN_BYTES // 8):
        end = min(begin + SCAN_BYTES // 8, len(column))
        below = column[begin:end] < column[begin - 1 : end - 1]
        if below.any():
            first = first or begin + int(np.argmax(below))
            count += int(np.count_nonzero(below))
    return count, first


def require_num_nodes(num_nodes: int) -> None:
    """Check that the id space fits int32."""
    if not 0 <= num_nodes <= MAX_NODES:
        raise UserError(f"num_nodes: expected 0..{MAX_NODES}, got {num_nodes}")


def release(array: NDArray[Any] | None) -> None:
    """Give back the pages of a mapped array that this process has read; the file keeps them. Other arrays stay as they are.

    What is read of a mapped file counts as memory of the process until the system needs the room, or until this.
    """
    base: object = array
    if array is None or array.flags.writeable:  # pages of a private map may have been written
        return
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def prefetch_rows(array: NDArray[Any], begin: int, end: int) -> None:
    """Ask the system to read rows begin .. end - 1 of a mapped array at once, not as they are touched. Other arrays stay as they are."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap) and end > begin:
        first = array.offset % mmap.ALLOCATIONGRANULARITY + begin * array[:1].nbytes
        page = first - first % mmap.PAGESIZE
        array.base.madvise(mmap.MADV_WILLNEED, page, first - page + (end - begin) * array[:1].nbytes)
