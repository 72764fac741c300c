"""Material files: prepared snapshots as files that ranks map, so that taking up a new schedule builds nothing (REAL §3.3)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.datasets.atomic import atomic_folder
from chronoscale.real_exec.snapshots.material import Change, FormKey, Full
from chronoscale.records import reading

Stores = Mapping[str, dict[FormKey, Any]]
KINDS = {kind.__name__: kind for kind in (CSR, Delta, EdgeMap, Full, Change)}
INDEX = "index.json"
ALIGNED = 64


def write_material(folder: Path, stores: Stores, without: Mapping[str, set[FormKey]]) -> None:
    """Write prepared snapshots to a new folder, from which ranks take them up while they train (REAL §3.3): all of `stores` but those in
    `without`.

    stores: kind -> snapshot, with its fold, as a tuple of numbers -> a dataclass of tensors, numbers, None and further dataclasses
    (`SnapshotMaterial.stores`). The folder is there completely or not at all: tensors in one file, structure in JSON.
    """
    with atomic_folder(folder) as draft:
        with (draft / "data.bin").open("wb") as file:
            index = {
                kind: {json.dumps(key): _write(store[key], file) for key in sorted(store.keys() - without.get(kind, set()))}
                for kind, store in stores.items()
            }
            file.flush()
            os.fsync(file.fileno())
        (draft / INDEX).write_text(json.dumps(index))


def _write(form: object, file: BinaryIO) -> object:
    if isinstance(form, Tensor):
        file.write(bytes(-file.tell() % ALIGNED))
        at, array = file.tell(), form.cpu().numpy()
        np.ascontiguousarray(array).tofile(file)
        return {"at": at, "dtype": str(array.dtype), "shape": list(array.shape)}
    if is_dataclass(form):
        return {"is": type(form).__name__, **{field.name: _write(getattr(form, field.name), file) for field in fields(form)}}
    return form


def map_material(folder: Path, stores: Stores, pin: bool) -> None:
    """Add prepared snapshots from a folder that `write_material` wrote to those of this rank, `stores`; which it has, it keeps.

    Tensors are mapped copy-on-write, or, if `pin`, pinned copies. Raises UserError when the files are missing or broken.
    """
    with reading(folder, "shipment"):
        index = json.loads((folder / INDEX).read_text())
        size = (folder / "data.bin").stat().st_size
        data = np.memmap(folder / "data.bin", np.uint8, "c") if size else np.empty(0, np.uint8)
        for kind, shipped in index.items():
            store = stores[kind]
            for name, form in shipped.items():
                if (key := tuple(json.loads(name))) not in store:
                    store[key] = _read(form, data, pin)


def _read(form: Any, data: NDArray[np.uint8], pin: bool) -> Any:
    if not isinstance(form, dict):
        return form
    if "is" in form:
        return KINDS[form["is"]](**{name: _read(part, data, pin) for name, part in form.items() if name != "is"})
    dtype, count = np.dtype(form["dtype"]), int(np.prod(form["shape"]))
    array = np.frombuffer(data, dtype, count, form["at"]) if count else np.empty(0, dtype)
    tensor = torch.from_numpy(array.reshape(form["shape"]))
    return tensor.pin_memory() if pin else tensor
