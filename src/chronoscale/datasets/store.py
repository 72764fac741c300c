"""Containers on disk: a folder of .npy files and meta.json, written whole or not at all, read through memory maps."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from chronoscale.datasets.events import EventStream
from chronoscale.datasets.signal import Signal
from chronoscale.datasets.snapshots import SnapshotSequence
from chronoscale.errors import UserError

Dataset = SnapshotSequence | EventStream | Signal
KINDS: dict[str, type[Dataset]] = {"snapshots": SnapshotSequence, "events": EventStream, "signal": Signal}
META = "meta.json"
VERSION: Literal[1] = 1


def save(path: str | Path, dataset: Dataset) -> None:
    """Write `dataset` to the new folder `path`. A killed write leaves no folder of that name. Raises UserError if it exists."""
    path = Path(path)
    if path.exists():
        raise UserError(f"{path}: already exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        _write(draft, dataset)
        draft.chmod(0o755)
        os.rename(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class _Array(BaseModel):
    dtype: str
    shape: list[int]


class _Meta(BaseModel):
    version: Literal[1] = VERSION
    kind: Literal["snapshots", "events", "signal"]
    scalars: dict[str, int | str]
    arrays: dict[str, _Array]


def _write(folder: Path, dataset: Dataset) -> None:
    kind = next(name for name, cls in KINDS.items() if isinstance(dataset, cls))
    meta = _Meta.model_validate({"kind": kind, "scalars": {}, "arrays": {}})
    for field in fields(dataset):
        value = getattr(dataset, field.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{field.name}.npy", value)
            meta.arrays[field.name] = _Array(dtype=value.dtype.name, shape=list(value.shape))
        elif value is not None:
            meta.scalars[field.name] = value
    (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")


def load(path: str | Path, mmap: bool = True) -> Dataset:
    """Read what `save` wrote; with `mmap` the arrays stay on disk. Raises UserError naming a file that is missing or damaged."""
    folder = Path(path)
    meta = _read_meta(folder / META)
    arrays: dict[str, Any] = {name: _read_array(folder / f"{name}.npy", spec, mmap) for name, spec in meta.arrays.items()}
    scalars: dict[str, Any] = meta.scalars
    try:
        return KINDS[meta.kind](**scalars, **arrays)
    except (TypeError, UserError) as error:
        raise UserError(f"{folder}: {error}") from None


def _read_meta(file: Path) -> _Meta:
    try:
        return _Meta.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{file}: no such file") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{file}: {where + ': ' if where else ''}{first['msg']}") from None


def _read_array(file: Path, spec: _Array, mmap: bool) -> NDArray[Any]:
    try:
        empty = 0 in spec.shape  # the system maps no empty files
        array: NDArray[Any] = np.load(file, mmap_mode="r" if mmap and not empty else None, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{file}: truncated or not a .npy file ({error})") from None
    if array.dtype.name != spec.dtype or list(array.shape) != spec.shape:
        raise UserError(f"{file}: {META} promises {spec.dtype} {spec.shape}, found {array.dtype.name} {list(array.shape)}")
    return array
