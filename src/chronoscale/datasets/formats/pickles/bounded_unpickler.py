"""Unpickler for files of unknown origin, bounded in memory; which names may occur, each format says in `find_class`."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

from chronoscale.datasets.unpacking import free_memory

COPIES = 16  # files that nobody made to fill memory have each byte copied once or twice


class BoundedUnpickler(pickle._Unpickler):
    """Unpickler for dataset files of unknown origin: what it copies is at most `COPIES` times the file's size, and fits into free memory. A
    subclass's `find_class` says which names a format's pickles may hold.

    Written in Python, as the one in C takes all memory for a pickle that numbers its objects from 2**32 on.
    """

    def __init__(self, data: bytes, encoding: str = "ASCII") -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._left = min(COPIES * len(data), free_memory())

    def counted(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Call `make`, which copies its arguments, and subtract their sizes from the bytes that this file may still copy. Raises
        UnpicklingError once none are left."""
        self._left -= sum(len(argument) for argument in arguments if isinstance(argument, (str, bytes, bytearray, list)))
        if self._left < 0:
            raise pickle.UnpicklingError("refused copies that fill memory")
        return make(*arguments)

    def _load_bytearray8(self) -> None:
        """Read a bytearray, looking first whether its bytes are there: Python's own makes room for as many as are promised."""
        count = int.from_bytes(self.read(8), "little")  # type: ignore[attr-defined]
        data = self.read(count)  # type: ignore[attr-defined]
        if len(data) < count:
            raise pickle.UnpicklingError("pickle data was truncated")
        self.append(bytearray(data))  # type: ignore[attr-defined]

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: _load_bytearray8}
