"""Readers of NumPy's files, arrays (.npy) and archives of them (.npz), with one clear line for a file that is missing or damaged."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.unpacking import read_npy_shape, require_archive_memory
from chronoscale.errors import UserError

# What NumPy raises on a damaged header, which it reads as Python; RuntimeError: an archive that is encrypted or packed in an unknown way.
_DAMAGED = (
    *(ValueError, TypeError, KeyError, EOFError, OverflowError, SyntaxError, RuntimeError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_array(path: str | Path, mmap: bool = False) -> NDArray[Any]:
    """Read an array from a .npy file of a dataset, a copy in memory, or, with `mmap`, mapped and read-only. Raises UserError naming a file
    that is missing, truncated or something else."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)  # sees that the file has the bytes that its header promises
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (*_DAMAGED, OSError) as error:
        raise UserError(f"{path}: truncated or not a .npy file ({error})") from None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path}: truncated or not a .npy file (an archive of several)")
    return array if mmap else np.array(array)


def read_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the arrays in a .npz of a dataset, by key, without their values. Raises UserError for a file that is missing,
    truncated or no archive."""
    shapes = {}
    with _opened(path) as file, zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                shapes[name.removesuffix(".npy")] = read_npy_shape(member, archive.getinfo(name).file_size)
    return shapes


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    try:
        with Path(path).open("rb") as file:
            yield file
    except _DAMAGED as error:
        raise UserError(f"{path}: truncated or not a .npz archive ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None


def read_archive(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a .npz of a dataset into memory, by key. Raises UserError naming a file that is missing, truncated, something
    else, or too large for memory."""
    with _opened(path) as file:
        content = np.load(file, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            raise UserError(f"{path}: not a .npz archive")
        assert content.zip is not None
        require_archive_memory(path, content.zip)
        return {key: content[key] for key in content.files}
