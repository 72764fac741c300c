"""Spool: an array that grows by rows, on disk beyond a megabyte; and block-wise operations that make one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from chronoscale.datasets.arrays import release

MEMORY_BYTES = 1 << 20  # bytes that stay in memory
BLOCK = 1 << 16  # rows that are looked at together


class Spool:
    """Array of rows [n, *row] that grows while a dataset's file is read. Beyond a megabyte it is on disk, in a file without a name in the
    folder for temporary files (TMPDIR), which goes with the last array that maps it."""

    def __init__(self, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.row = row
        self.rows = 0
        self._held: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows [k, *row], converted to the array's dtype."""
        contiguous = np.ascontiguousarray(rows, self.dtype)
        self.rows += len(contiguous)
        if self._file is None:
            self._held.append(contiguous.copy() if np.shares_memory(contiguous, rows) else contiguous)
            if sum(part.nbytes for part in self._held) <= MEMORY_BYTES:
                return
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as its maps)
            for part in self._held:
                part.tofile(self._file)
            self._held.clear()
        else:
            contiguous.tofile(self._file)

    def array(self) -> NDArray[Any]:
        """Return all rows so far; those that are on disk are mapped, and not to be written."""
        if self._file is None:
            return np.concatenate([np.empty((0, *self.row), self.dtype), *self._held])
        self._file.flush()
        return np.memmap(self._file, self.dtype, "r", shape=(self.rows, *self.row))


def map_rows(array: NDArray[Any], change: Callable[[NDArray[Any]], NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Apply `change`, which keeps the shape, to a dataset's array that may be larger than memory, a block of rows at a time; return the
    result as `dtype`, on disk beyond a megabyte. Pages of a mapped `array` are given back to the system."""
    spool = Spool(dtype, array.shape[1:])
    for begin in range(0, len(array), BLOCK):
        spool.append(change(array[begin : begin + BLOCK]))
    release(array)
    return spool.array()


def take_rows(array: NDArray[Any], places: NDArray[np.integer[Any]], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return array[places] of a dataset's array that may be larger than memory, a block of places at a time, on disk beyond a megabyte; as
    `dtype`, or (None) the array's own."""
    spool = Spool(array.dtype if dtype is None else dtype, array.shape[1:])
    step = max(BLOCK * 8 // max(array[:1].nbytes, 8), 1)
    for begin in range(0, len(places), step):
        spool.append(array[places[begin : begin + step]])
    release(array)
    return spool.array()
