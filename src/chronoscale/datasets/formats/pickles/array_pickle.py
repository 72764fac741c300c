"""Pickles of lists, text, numbers and NumPy arrays, read without running anything that they name."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.formats.pickles.bounded_unpickler import BoundedUnpickler
from chronoscale.errors import UserError

DAMAGED = (EOFError, ValueError, TypeError, AttributeError, LookupError, OverflowError, MemoryError, AssertionError, struct.error)


def read_pickle(path: Path, what: str = "an adjacency pickle") -> Any:
    """Read a pickle of a dataset, such as an adjacency matrix (`adj_mx.pkl`), of Python 2 or 3, without running code: containers, text and
    numbers as they are, arrays as `PickledArray`. what: it should be, for messages. Raises UserError where it is damaged or names any other
    class or function."""
    try:
        return _Unpickler(path.read_bytes(), encoding="latin1").load()
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None
    except pickle.UnpicklingError as error:
        raise UserError(f"{path}: not {what} ({' '.join(str(error).split())})") from None
    except DAMAGED as error:
        raise UserError(f"{path}: truncated or not {what} ({error})") from None


class _DType:
    """Element type of a pickled array: numbers or text of fixed length. NumPy's own would take any state and break on it."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str):  # whose text may be endless
            raise pickle.UnpicklingError(f"refused an array of {type(code).__name__}")
        self.dtype = np.dtype(code)
        if self.dtype.kind not in "iufSU":
            raise pickle.UnpicklingError(f"refused an array of {code}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class PickledArray:
    """NumPy array that `read_pickle` rebuilds from a dataset's pickle; `values` is empty until shape, type and bytes have been read."""

    values: NDArray[Any] = np.zeros(0)

    def __init__(self, counted: Callable[..., Any]) -> None:
        """counted: calls what copies, and counts that (`BoundedUnpickler.counted`)."""
        self._counted = counted

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        self.values = self._counted(_values, data, kind, shape, "F" if fortran else "C")


def _values(data: bytes | str, kind: _DType, shape: tuple[int, ...], order: str) -> NDArray[Any]:
    """Return the values of an array by its bytes, which Python 2 writes as text."""
    raw = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


def _scalar(kind: _DType, data: bytes | str) -> Any:
    return _values(data, kind, (1,), "C")[0]


def _encode(text: str, _encoding: str) -> bytes:
    """Return latin1 text as the bytes that it stands for: Python 3 writes bytes for Python 2 as text."""
    return text.encode("latin1")


def _bytes(content: Any = b"", *encoding: Any) -> bytes:
    """Return bytes of bytes, text or a list. Raises UnpicklingError for a number, which would make so many zeros."""
    if isinstance(content, int):
        raise pickle.UnpicklingError(f"refused {content} bytes of nothing")
    return bytes(content, *encoding)


_ALLOWED: dict[str, Callable[..., Any] | None] = {
    "multiarray.scalar": _scalar,
    "numpy.ndarray": None,  # named as an argument of _reconstruct, never called
    "numpy.dtype": _DType,
    "_codecs.encode": _encode,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "__builtin__.bytes": _bytes,
}


class _Unpickler(BoundedUnpickler):
    """Unpickler that rebuilds only numbers, text, lists and NumPy arrays; nothing else that a pickle names is imported."""

    def find_class(self, module: str, name: str) -> Any:
        short = module.removeprefix("numpy.core.").removeprefix("numpy._core.")
        if (short, name) == ("multiarray", "_reconstruct"):
            return self._reconstruct
        if (short, name) == ("numeric", "_frombuffer"):
            return self._frombuffer
        if f"{short}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(f"refused {module}.{name}")
        called = _ALLOWED[f"{short}.{name}"]
        return partial(self.counted, called) if called in (_encode, _bytes, _scalar) else called

    def _reconstruct(self, *_: object) -> PickledArray:
        """Return an empty array, which the pickle's next step fills."""
        return PickledArray(self.counted)

    def _frombuffer(self, data: bytes | str, kind: _DType, shape: tuple[int, ...], order: str) -> PickledArray:
        array = PickledArray(self.counted)
        array.values = self.counted(_values, data, kind, shape, order)
        return array
