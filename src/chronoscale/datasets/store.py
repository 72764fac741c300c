"""Storage of containers: a folder of .npy files and meta.json, written whole or not at all, read through memory maps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from chronoscale.datasets.archive import read_array
from chronoscale.datasets.arrays import Float32, Int32, release, require, require_finite
from chronoscale.datasets.atomic import atomic_folder
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import MachineError, UserError
from chronoscale.validation_messages import mistake

Dataset = SnapshotSequence | EventStream | Signal
KINDS: dict[str, type[Dataset]] = {"snapshots": SnapshotSequence, "events": EventStream, "signal": Signal}
META = "meta.json"
SHOWN = 6  # names of a folder
VERSION: Literal[1] = 1


def save(path: str | Path, dataset: Dataset) -> None:
    """Write a dataset that is in memory or mapped to the new folder `path`: a .npy file an array, and meta.json. A killed write leaves no
    folder of that name. Raises UserError if it exists."""
    if isinstance(dataset, Signal):
        dataset.verify()
        dataset = replace(dataset, verified=True)
    with atomic_folder(Path(path)) as folder:
        _write(folder, dataset)


def save_snapshots(path: str | Path, snapshots: Iterable[Snapshot], name: str = "") -> None:
    """Write snapshots to a new dataset folder as they come, so that a sequence larger than memory can be generated once and then mapped by
    `load`.

    Raises UserError if `path` exists, there is no snapshot, or they differ in nodes or in having weights.
    """
    with atomic_folder(Path(path)) as folder:
        stream = iter(snapshots)
        first = next(stream, None)
        if first is None:
            raise UserError("a snapshot sequence needs at least one snapshot")
        fields_kept = ("src", "dst") if first.weight is None else ("src", "dst", "weight")
        ends = [0]
        with ExitStack() as open_files:
            columns = {f: open_files.enter_context(_GrowingArray(folder / f"{f}.npy", getattr(first, f).dtype)) for f in fields_kept}
            for snapshot in chain([first], stream):
                if snapshot.num_nodes != first.num_nodes or (snapshot.weight is None) != (first.weight is None):
                    raise UserError("the snapshots of a sequence must share num_nodes and all have weights or none")
                for field, column in columns.items():
                    column.append(getattr(snapshot, field))
                ends.append(ends[-1] + snapshot.num_edges)
        np.save(folder / "ptr.npy", np.array(ends, dtype=np.int64))
        arrays = {f: _ArraySpec(dtype=column.dtype.name, shape=[ends[-1]]) for f, column in columns.items()}
        arrays["ptr"] = _ArraySpec(dtype="int64", shape=[len(ends)])
        meta = _Metadata(kind="snapshots", scalars={"num_nodes": first.num_nodes, "name": name}, arrays=arrays)
        (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")


def save_signal(
    path: str | Path,
    blocks: Iterable[Float32],
    edge_index: Int32,
    edge_weight: Float32 | None = None,
    name: str = "",
    calendar: int = 0,
) -> None:
    """Write a signal to a new dataset folder as its blocks come, float32 [steps, N, C] each, consecutive in time; NaN is a missing reading.
    The last `calendar` channels tell the time.

    Memory is one block. What `load` maps is checked here. Raises UserError if `path` exists, there is no block, they differ in N or C, an
    edge does not fit them, or a value is infinite.
    """
    with atomic_folder(Path(path)) as folder:
        stream = iter(blocks)
        first = next(stream, None)
        if first is None:
            raise UserError("a signal needs at least one block of readings")
        graph = Signal(first[:0], edge_index, edge_weight, calendar=calendar)
        steps, absent = 0, 0
        with ExitStack() as open_files:
            values = open_files.enter_context(_GrowingArray(folder / "values.npy", np.dtype(np.float32), first.shape[1:]))
            missing = open_files.enter_context(_GrowingArray(folder / "missing.npy", np.dtype(np.bool_), first.shape[1:]))
            for block in chain([first], stream):
                require(block, f"block from step {steps}", "float32", (None, *first.shape[1:]))
                try:
                    checked = Signal.from_readings(block, graph.edge_index)
                except UserError as error:
                    raise UserError(f"block from step {steps}: {error}") from None
                values.append(block)
                missing.append(np.zeros(block.shape, np.bool_) if checked.missing is None else checked.missing)
                steps, absent = steps + len(block), absent + checked.missing_count
        arrays = {"values": _ArraySpec(dtype="float32", shape=[steps, *first.shape[1:]])}
        if absent:
            arrays["missing"] = _ArraySpec(dtype="bool", shape=[steps, *first.shape[1:]])
        else:
            (folder / "missing.npy").unlink()
        for field, array in (("edge_index", edge_index), ("edge_weight", edge_weight)):
            if array is not None:
                np.save(folder / f"{field}.npy", array)
                arrays[field] = _ArraySpec(dtype=array.dtype.name, shape=list(array.shape))
        meta = _Metadata(kind="signal", scalars={"name": name, "verified": True, "calendar": calendar}, arrays=arrays)
        (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")


def save_events(path: str | Path, blocks: Iterable[EventStream], node_blocks: Iterable[Float32] = ()) -> None:
    """Write an event stream to a new dataset folder as its blocks come, consecutive in time and over the same nodes, then the features of
    the nodes, float32 [n, F] each.

    Memory is one block. The first block gives the name. Raises UserError if `path` exists, there is no block, blocks differ in nodes,
    columns, widths or the type of time, time falls from one to the next, or the features are not one row a node.
    """
    with atomic_folder(Path(path)) as folder:
        stream = iter(blocks)
        first = next(stream, None)
        if first is None:
            raise UserError("a stream needs at least one block of events")
        like, until = _event_columns(first), -math.inf
        with ExitStack() as open_files:
            columns = {f: open_files.enter_context(_GrowingArray(folder / f"{f}.npy", a.dtype, a.shape[1:])) for f, a in like.items()}
            for block in chain([first], stream):
                arrays = _event_columns(block)
                if block.num_nodes != first.num_nodes or _row_shapes(arrays) != _row_shapes(like):
                    raise UserError("the blocks of a stream must share num_nodes, columns, widths and the type of time")
                if len(block) and block.t[0] < until:
                    raise UserError(f"block from event {columns['t'].rows}: time {block.t[0]} is before {until}")
                for field, array in arrays.items():
                    columns[field].append(array)
                until = block.t[-1].item() if len(block) else until
            for rows in node_blocks:
                if "node_features" not in columns:
                    file = folder / "node_features.npy"
                    columns["node_features"] = open_files.enter_context(_GrowingArray(file, np.dtype(np.float32), rows.shape[1:]))
                require(rows, f"features from node {columns['node_features'].rows}", "float32", (None, *columns["node_features"].row))
                require_finite(rows, f"features from node {columns['node_features'].rows}")
                columns["node_features"].append(rows)
        if "node_features" in columns and columns["node_features"].rows != first.num_nodes:
            raise UserError(f"features of {columns['node_features'].rows} nodes, where the stream has {first.num_nodes}")
        arrays_kept = {f: _ArraySpec(dtype=column.dtype.name, shape=[column.rows, *column.row]) for f, column in columns.items()}
        meta = _Metadata(kind="events", scalars={"num_nodes": first.num_nodes, "name": first.name}, arrays=arrays_kept)
        (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")


def _event_columns(block: EventStream) -> dict[str, NDArray[Any]]:
    columns = {f: getattr(block, f) for f in ("src", "dst", "t", "features", "labels")}
    return {f: array for f, array in columns.items() if array is not None}


def _row_shapes(arrays: dict[str, NDArray[Any]]) -> dict[str, tuple[Any, ...]]:
    return {f: (array.dtype, *array.shape[1:]) for f, array in arrays.items()}


class _GrowingArray:
    """An .npy file that grows by rows of one shape; its header is written again at the end (NumPy pads it for that)."""

    def __init__(self, path: Path, dtype: np.dtype[Any], row: tuple[int, ...] = ()) -> None:
        self.dtype = dtype
        self.rows = 0
        self._path = path
        self.row = row

    def __enter__(self) -> _GrowingArray:
        self._file = self._path.open("wb")
        self._data_start = self._write_header()
        return self

    def append(self, array: NDArray[Any]) -> None:
        np.ascontiguousarray(array).tofile(self._file)
        self.rows += len(array)

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.seek(0)
            if self._write_header() != self._data_start:
                raise MachineError(f"{self._path}: the header of {self.rows} rows does not fit its place")

    def _write_header(self) -> int:
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.rows, *self.row)}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


class _ArraySpec(BaseModel):
    dtype: str
    shape: list[int]


class _Metadata(BaseModel):
    version: Literal[1] = VERSION
    kind: Literal["snapshots", "events", "signal"]
    scalars: dict[str, bool | int | str | dict[str, str | list[str]]]
    arrays: dict[str, _ArraySpec]


def _write(folder: Path, dataset: Dataset) -> None:
    kind = next(name for name, cls in KINDS.items() if isinstance(dataset, cls))
    meta = _Metadata.model_validate({"kind": kind, "scalars": {}, "arrays": {}})
    for field in fields(dataset):
        value = getattr(dataset, field.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{field.name}.npy", value)
            release(value)
            meta.arrays[field.name] = _ArraySpec(dtype=value.dtype.name, shape=list(value.shape))
        elif value is not None and value != {}:
            meta.scalars[field.name] = value
    (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")


def load(path: str | Path, mmap: bool = True) -> Dataset:
    """Load a dataset from the folder that `save` wrote; with `mmap` the arrays stay on disk. Raises UserError naming a file that is missing
    or damaged."""
    folder = Path(path)
    meta = _read_metadata(folder / META)
    arrays: dict[str, Any] = {name: _read_array(folder / f"{name}.npy", spec, mmap) for name, spec in meta.arrays.items()}
    scalars: dict[str, Any] = meta.scalars
    try:
        return KINDS[meta.kind](**scalars, **arrays)
    except (TypeError, UserError) as error:
        raise UserError(f"{folder}: {error}") from None


def _read_metadata(file: Path) -> _Metadata:
    try:
        return _Metadata.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if not file.parent.is_dir():
            raise UserError(f"{file.parent}: no such folder") from None
        inside = ", ".join(sorted(entry.name for entry in file.parent.iterdir())[:SHOWN]) or "nothing"
        problem = f"no {META}, which `chronoscale data convert` writes with the arrays (.npy) of a dataset"
        raise UserError(f"{file.parent}: a folder without a dataset: {problem}; it holds {inside}: name a file, if one is meant") from None
    except ValidationError as error:
        raise UserError(f"{file}: {mistake(error)}") from None


def _read_array(file: Path, spec: _ArraySpec, mmap: bool) -> NDArray[Any]:
    array = read_array(file, mmap and 0 not in spec.shape)  # nothing to map in an empty one
    if array.dtype.name != spec.dtype or list(array.shape) != spec.shape:
        raise UserError(f"{file}: {META} promises {spec.dtype} {spec.shape}, found {array.dtype.name} {list(array.shape)}")
    return array
