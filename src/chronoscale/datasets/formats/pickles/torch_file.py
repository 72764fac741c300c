"""Tensors that torch.save wrote, mapped from the file: without torch, and without running anything that the file names.

Since torch 1.6 such a file is a zip archive, not compressed: a pickle, `data.pkl`, says shape, strides and which member holds the bytes
(torch/serialization.py). Only those names are known here that a dense tensor needs.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.formats.pickles.array_pickle import DAMAGED as _UNREADABLE
from chronoscale.datasets.formats.pickles.bounded_unpickler import BoundedUnpickler
from chronoscale.errors import UserError

STORAGES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
SMALL = 1 << 20  # bytes of what is no tensor
_OLD = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")  # how a file of an older torch begins
_DAMAGED = (*_UNREADABLE, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_LOCAL = struct.Struct("<26xHH")  # of a member's own header: lengths of its name and of the extra field, which its bytes follow


@dataclass(frozen=True, slots=True)
class _ElementType:
    code: str


@dataclass(frozen=True, slots=True)
class _Storage:
    kind: _ElementType
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class _View:
    """View of a storage, which is a tensor: `size` and `stride` in elements over a storage."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def _build_view(storage: object, offset: object, size: object, stride: object, *_: object) -> _View:
    plain = [offset, *size, *stride] if isinstance(size, tuple) and isinstance(stride, tuple) else [None]
    if not isinstance(storage, _Storage) or not all(type(number) is int and number >= 0 for number in plain):
        raise pickle.UnpicklingError("a tensor that is no dense one")
    return _View(storage, plain[0], tuple(size), tuple(stride))  # type: ignore[arg-type]


def _pass_through(data: object, *_: object) -> object:
    return data


def _hooks() -> dict[str, object]:
    """Return the hooks of a tensor, of which a file has none: others would be copied."""
    return {}


class _Unpickler(BoundedUnpickler):
    """Unpickler that knows views of storages, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return _ElementType(STORAGES[name])
        known = {
            "torch._utils._rebuild_tensor_v2": _build_view,
            "torch._utils._rebuild_parameter": _pass_through,
            "collections.OrderedDict": _hooks,
        }
        if f"{module}.{name}" not in known:
            raise pickle.UnpicklingError(f"refused {module}.{name}")
        return known[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> _Storage:
        _, kind, member, _, size = pid[:5]
        if not isinstance(kind, _ElementType) or not isinstance(member, str) or type(size) is not int or size < 0:
            raise pickle.UnpicklingError("a storage of another kind")
        return _Storage(kind, member, size)


def read_tensor(path: Path) -> NDArray[Any]:
    """Map the one tensor in a .pt file of a dataset, such as TGL's features, without torch and without running code: an array on disk, of
    the tensor's shape and dtype. Raises UserError for a file that is missing, damaged, of a torch before 1.6, or that holds anything but
    one dense tensor of numbers."""
    advice = f"numpy.save('{path.stem}.npy', torch.load('{path.name}').float().numpy()) writes what can be read"
    try:
        with path.open("rb") as file:
            if file.read(len(_OLD)) == _OLD:
                raise UserError(f"{path}: written by a torch before 1.6, whose files are not read; {advice}")
            return _map_tensor(path, file)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None
    except pickle.UnpicklingError as error:
        raise UserError(f"{path}: expected one tensor of numbers ({' '.join(str(error).split())}); {advice}") from None
    except _DAMAGED as error:
        raise UserError(f"{path}: truncated or not a file of torch.save ({' '.join(str(error).split())})") from None


def _read_small_member(archive: zipfile.ZipFile, name: str) -> bytes:
    if (size := archive.getinfo(name).file_size) > SMALL:  # of which no read takes more
        raise ValueError(f"{name} of {size:,} bytes")
    return archive.read(name)


def _map_tensor(path: Path, file: Any) -> NDArray[Any]:
    with zipfile.ZipFile(file) as archive:
        (pickled,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        view = _Unpickler(_read_small_member(archive, pickled)).load()
        if not isinstance(view, _View):
            raise pickle.UnpicklingError(f"found {type(view).__name__}")
        folder = pickled.removesuffix("data.pkl")
        big = f"{folder}byteorder" in archive.namelist() and _read_small_member(archive, f"{folder}byteorder") == b"big"
        member = archive.getinfo(f"{folder}data/{view.storage.member}")
    dtype = np.dtype(view.storage.kind.code).newbyteorder(">" if big else "<")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != view.storage.size * dtype.itemsize:
        raise ValueError(f"{member.filename} has not the {view.storage.size} numbers that are promised")
    if 0 in view.size:
        return np.empty(view.size, dtype)
    file.seek(member.header_offset)
    begin = member.header_offset + _LOCAL.size + sum(_LOCAL.unpack(file.read(_LOCAL.size)))
    mapped = np.memmap(path, dtype, "r", begin, (view.storage.size,))
    strides = tuple(step * dtype.itemsize for step in view.stride)
    return np.ndarray(view.size, dtype, mapped, view.offset * dtype.itemsize, strides)  # refuses what is outside the bytes
