"""Containers on disk: a folder of .npy files and meta.json, written whole or not at all, read through memory maps."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.events import EventStream
from chronoscale.datasets.signal import Signal
from chronoscale.datasets.snapshots import SnapshotSequence
from chronoscale.errors import UserError, unknown

Dataset = SnapshotSequence | EventStream | Signal
KINDS: dict[str, type[Dataset]] = {"snapshots": SnapshotSequence, "events": EventStream, "signal": Signal}
META = "meta.json"
VERSION = 1


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


def _write(folder: Path, dataset: Dataset) -> None:
    kind = next(name for name, cls in KINDS.items() if isinstance(dataset, cls))
    arrays: dict[str, dict[str, Any]] = {}
    scalars: dict[str, int | str] = {}
    for field in fields(dataset):
        value = getattr(dataset, field.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{field.name}.npy", value)
            arrays[field.name] = {"dtype": value.dtype.name, "shape": list(value.shape)}
        elif value is not None:
            scalars[field.name] = value
    meta = {"version": VERSION, "kind": kind, "scalars": scalars, "arrays": arrays}
    (folder / META).write_text(json.dumps(meta, indent=2) + "\n")


def load(path: str | Path, mmap: bool = True) -> Dataset:
    """Read what `save` wrote; with `mmap` the arrays stay on disk. Raises UserError naming a file that is missing or damaged."""
    folder = Path(path)
    meta = _read_meta(folder / META)
    if meta["kind"] not in KINDS:
        raise unknown(f"kind in {folder / META}:", str(meta["kind"]), KINDS)
    arrays: dict[str, Any] = {name: _read_array(folder / f"{name}.npy", spec, mmap) for name, spec in meta["arrays"].items()}
    try:
        return KINDS[meta["kind"]](**meta["scalars"], **arrays)
    except (TypeError, UserError) as error:
        raise UserError(f"{folder}: {error}") from None


def _read_meta(file: Path) -> dict[str, Any]:
    try:
        meta = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{file}: no such file") from None
    except ValueError as error:
        raise UserError(f"{file}: not JSON ({error})") from None
    if not isinstance(meta, dict) or not {"version", "kind", "scalars", "arrays"} <= meta.keys():
        raise UserError(f"{file}: expected the keys version, kind, scalars, arrays")
    if meta["version"] != VERSION:
        raise UserError(f"{file}: version {meta['version']}, this release reads {VERSION}")
    return meta


def _read_array(file: Path, spec: dict[str, Any], mmap: bool) -> NDArray[Any]:
    try:
        empty = 0 in spec["shape"]  # the system maps no empty files
        array: NDArray[Any] = np.load(file, mmap_mode="r" if mmap and not empty else None, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{file}: truncated or not a .npy file ({error})") from None
    if array.dtype.name != spec["dtype"] or list(array.shape) != spec["shape"]:
        raise UserError(f"{file}: {META} promises {spec['dtype']} {spec['shape']}, found {array.dtype.name} {list(array.shape)}")
    return array
