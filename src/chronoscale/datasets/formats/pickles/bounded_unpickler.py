"""Unpickler for files of unknown origin, bounded in memory; which names may occur, each format says in `find_class`."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Sized
from typing import Any, ClassVar

from chronoscale.datasets.unpacking import free_memory

COPIES = 16  # files that nobody made to fill memory have each byte copied once or twice


class BoundedUnpickler(pickle._Unpickler):
    """Unpickler for dataset files of unknown origin: what it copies is at most `COPIES` times the file's size, and fits into free memory. A
    subclass's `find_class` says which names a format's pickles may hold.

    Keys hold no tuples of tuples: a tuple that names another twice, and so on n times, is hashed in 2**n steps.

    Written in Python, as the one in C takes all memory for a pickle that numbers its objects from 2**32 on.
    """

    def __init__(self, data: bytes, encoding: str = "ASCII") -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._left = min(COPIES * len(data), free_memory())

    def counted(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Call `make`, which copies its arguments, and subtract their sizes from the bytes that this file may still copy. Raises
        UnpicklingError once none are left."""
        self._left -= sum(len(argument) for argument in arguments if isinstance(argument, Sized))
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

    def _load_setitem(self) -> None:
        _require_flat(self.stack[-2:-1])  # type: ignore[attr-defined]
        super().load_setitem()  # type: ignore[misc]

    def _load_setitems(self) -> None:
        _require_flat(self.stack[::2])  # type: ignore[attr-defined]
        super().load_setitems()  # type: ignore[misc]

    def _load_dict(self) -> None:
        _require_flat(self.stack[::2])  # type: ignore[attr-defined]
        super().load_dict()  # type: ignore[misc]

    def _load_additems(self) -> None:
        _require_flat(self.stack)  # type: ignore[attr-defined]
        super().load_additems()  # type: ignore[misc]

    def _load_frozenset(self) -> None:
        _require_flat(self.stack)  # type: ignore[attr-defined]
        super().load_frozenset()  # type: ignore[misc]

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _load_bytearray8,
        pickle.SETITEM[0]: _load_setitem,
        pickle.SETITEMS[0]: _load_setitems,
        pickle.DICT[0]: _load_dict,
        pickle.ADDITEMS[0]: _load_additems,
        pickle.FROZENSET[0]: _load_frozenset,
    }


def _require_flat(keys: Iterable[object]) -> None:
    """Check that keys of a mapping, or members of a set, hold no tuples of tuples. Raises UnpicklingError."""
    for key in keys:
        if isinstance(key, tuple) and any(isinstance(part, tuple) for part in key):
            raise pickle.UnpicklingError("refused a key that holds tuples")
