"""Records: files that this software wrote and reads again. What is wrong with one is said in one line: the file, what, what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import TypeAdapter, ValidationError

from chronoscale.errors import DamagedFileError, MachineError, UserError
from chronoscale.validation_messages import mistake

AGAIN = "delete the run's folder and give its command again"
Shape = TypeVar("Shape")
_checker: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@contextmanager
def reading(path: Path, kind: str, remedy: str = AGAIN) -> Iterator[None]:
    """Turn what goes wrong inside into a UserError: the file, that it is missing or no readable `kind`, and the remedy.

    Readers of formats raise anything on a damaged file, so that all is caught but what already names the file, and the machine's failures.
    """
    try:
        yield
    except (MachineError, MemoryError):
        raise
    except FileNotFoundError:
        raise DamagedFileError(path, f"no such file, a {kind} is expected", remedy) from None
    except Exception as error:
        if isinstance(error, UserError) and str(error).startswith(str(path)):
            raise
        raise DamagedFileError(path, f"not a readable {kind} ({_why(error)})", remedy) from error


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return mistake(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).splitlines()
    if isinstance(error, UserError):
        return lines[0]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def read_json(path: Path, shape: type[Shape], kind: str, remedy: str = AGAIN) -> Shape:
    """Read JSON of a `shape`, a type as pydantic knows types: a dataclass, `dict[str, str]`.

    kind: what the file is, such as "counts"; remedy: what the user can do; both for the message of the UserError that is raised where it is
    missing or something else.
    """
    with reading(path, kind, remedy):
        data: Shape = _checker(shape).validate_json(path.read_bytes(), strict=True)
        return data


def read_array(path: Path, dtype: DTypeLike, shape: tuple[int | None, ...], kind: str, remedy: str = AGAIN) -> NDArray[Any]:
    """Read an .npy array of a dtype and shape, None for any length.

    kind: what the file is, such as "partition"; remedy: what the user can do; both for the message of the UserError that is raised where it
    is missing or something else.
    """
    with reading(path, kind, remedy):
        file = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped first: a damaged header may promise more than there is
        fits = file.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, file.shape, strict=True))
        if file.dtype != np.dtype(dtype) or not fits:
            wanted = "x".join("any" if length is None else str(length) for length in shape)
            raise ValueError(f"expected {np.dtype(dtype)} {wanted}, got {file.dtype} {'x'.join(map(str, file.shape))}")
        return np.array(file)


def read_text(path: Path, kind: str, remedy: str = AGAIN) -> str:
    """Return the text of a file that is JSON.

    kind: what the file is; remedy: what the user can do; both for the message of the UserError that is raised where it is missing or no
    JSON.
    """
    with reading(path, kind, remedy):
        text = path.read_text(encoding="utf-8")
        json.loads(text)
        return text


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}")
    part.write_bytes(content)
    os.replace(part, path)
