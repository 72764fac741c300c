"""Files beside TGL's `edges.csv`: the same events as T-CSR, features of events and nodes, labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.archive import read_archive, read_array, read_shapes
from chronoscale.datasets.arrays import Float32, Int64, find_not_finite, require_finite
from chronoscale.datasets.formats.pickles.torch_file import read_tensor
from chronoscale.datasets.formats.tables.event_table import EventTable, are_consecutive
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.spool import map_rows, take_rows
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

EDGES = "edges.csv"
GRAPH = "ext_full.npz"
LABELS = "labels.csv"
ARRAYS = ("indptr", "indices", "ts", "eid")
EventColumns = dict[str, NDArray[Any]]


def check_graph(path: Path, events: int, nodes: int) -> None:
    """Check that the T-CSR in a TGL folder (`ext_full.npz`) fits its edges.csv: it holds each of `events` events once or, made with
    `gen_graph.py --add_reverse`, twice, and `nodes` nodes or more. Only sizes are read. Raises UserError."""
    shapes = _read_shapes(path)
    (entries,), (rows,) = shapes["eid"], shapes["indptr"]
    if entries not in (events, 2 * events):
        raise UserError(f"{path}: {entries:,} entries, expected {events:,} or twice as many, for the events of {EDGES}")
    if rows - 1 < nodes:
        raise UserError(f"{path}: {rows - 1:,} nodes, {EDGES} names node {nodes - 1}")


def read_graph(path: Path) -> EventColumns:
    """Read the events of a TGL folder from its T-CSR (`ext_full.npz`), for a folder without edges.csv: columns src, dst int64 [M] and time
    [M], in the order of event ids; an event's source is the node in whose row it stands. Raises UserError where events stand in it twice,
    since which end is the source is lost, and for arrays that are no T-CSR."""
    _read_shapes(path)
    arrays = read_archive(path)
    indptr, indices, eid = (_integer_array(path, arrays, key) for key in ("indptr", "indices", "eid"))
    ts, events = arrays["ts"], len(eid)
    if ts.dtype.kind not in "iuf":
        raise UserError(f"{path}: ts: expected numbers, found {ts.dtype}")
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != events or (indptr[1:] < indptr[:-1]).any():
        raise UserError(f"{path}: indptr: expected to rise from 0 to {events:,}, the number of entries")
    for key, ids in (("indices", indices), ("eid", eid)):
        if ids.size and ids.min() < 0:
            raise UserError(f"{path}: {key}[{int(np.argmin(ids))}]: {'node' if key == 'indices' else 'event'} id {ids.min()} is below 0")
    times_seen = np.zeros(events, np.int8)
    if events and eid.max() < events:
        np.add.at(times_seen, eid, 1)
    if events % 2 == 0 and events and (times_seen[: events // 2] == 2).all():
        raise UserError(f"{path}: every event stands in it twice (gen_graph.py --add_reverse): which end is the source, {EDGES} alone says")
    if (wrong := times_seen != 1).any():
        message = f"event {int(np.argmax(wrong))} stands in it {int(times_seen[np.argmax(wrong)])} times, expected once"
        raise UserError(f"{path}: eid: expected the events 0 to {events - 1:,}; {message if eid.max() < events else f'found {eid.max()}'}")
    if (index := find_not_finite(ts)) is not None:
        raise UserError(f"{path}: ts[{index}]: expected a finite number, found {ts[index]}")
    place = np.argsort(eid)
    src = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return {"src": src[place], "dst": indices[place], "time": ts.astype(np.float64 if ts.dtype.kind == "f" else np.int64)[place]}


def read_edge_features(folder: Path, columns: EventColumns) -> tuple[Path, Float32] | None:
    """Read the features of events in a TGL folder (edge_features.pt or .npy): the file's path and its rows in the order of the events,
    float32 [M, D]; None where there is no such file.

    columns: those of the events that have been read; an event's row is its `id`, or its place without ids. Raises UserError where there is
    not a row for each event, or a number is not finite.
    """
    matrix = _read_matrix(folder, "edge_features")
    if matrix is None:
        return None
    path, rows = matrix
    events = len(columns["src"])
    ids = columns.get("id")
    if len(rows) != events:
        raise UserError(f"{path}: {len(rows):,} rows, expected {events:,}, one for each event")
    if ids is not None and (top := int(ids.max(initial=-1))) >= events:
        raise UserError(f"{path}: no row for the event with id {top}: there are {events:,}")
    ordered = _as_float32(rows) if ids is None or are_consecutive(ids) else take_rows(rows, ids, np.float32)
    require_finite(ordered, str(path))
    return path, ordered


def add_node_features(folder: Path, stream: EventStream) -> EventStream:
    """Return a stream that was read from a TGL folder with the folder's node features (node_features.pt or .npy), if there are any; rows of
    nodes without an event are left out, as the stream's account then says. Raises UserError where a node has no row, or a number is not
    finite."""
    matrix = _read_matrix(folder, "node_features")
    return stream if matrix is None else with_node_features(stream, *matrix)


def with_node_features(stream: EventStream, path: Path, rows: NDArray[Any]) -> EventStream:
    """Return a stream with features of its nodes, of which the file `path` has a row [D] for each of the ids that the events name, and
    maybe more; the account names the file, and says which rows were left out. Raises UserError as `add_node_features`."""
    assert stream.node_ids is not None
    if (top := int(stream.node_ids.max(initial=-1))) >= len(rows):
        raise UserError(f"{path}: {len(rows):,} rows, the events name node {top}")
    features = (
        _as_float32(rows)
        if are_consecutive(stream.node_ids) and len(rows) == stream.num_nodes
        else take_rows(rows, stream.node_ids, np.float32)
    )
    require_finite(features, str(path))
    account = {**stream.account, "files": [*stream.account["files"], path.name]}
    if len(rows) > stream.num_nodes:
        account["dropped"] = [*account["dropped"], f"{len(rows) - stream.num_nodes:,} rows of {path.name}, of nodes without an event"]
    return replace(stream, node_features=features, account=account)


def add_labels(path: Path, columns: EventColumns) -> str:
    """Add the column `label`, int64 [M], to `columns` of a TGL folder's events, from its labels.csv, where that has exactly one label for
    each event's source and time; else leave them. Returns a sentence on which of the two was done. Raises UserError for a malformed file.
    """
    header = tuple(name.strip() for name in first_line(path).split(","))
    if not {"node", "time", "label"} <= {*header} or any(header.count(name) > 1 for name in ("node", "time", "label")):
        raise UserError(f"{path}:1: expected a header with node, time and label, found '{','.join(header)[:60]}'")
    table = TextTable(path, separator=",", skip=1)
    if table.fields != len(header):
        raise UserError(f"{path}:{table.first_line()[0]}: expected {len(header)} fields as in the header, found {table.fields}")
    label_columns = EventTable([table], tuple(name if name in ("node", "time", "label") else f"_{name}" for name in header)).columns
    events = len(columns["src"])
    if len(label_columns["node"]) == events:
        event_order, label_order = np.lexsort((columns["src"], columns["time"])), np.lexsort((label_columns["node"], label_columns["time"]))
        same = (np.array_equal(columns[a][event_order], label_columns[b][label_order]) for a, b in (("src", "node"), ("time", "time")))
        if all(same):
            labels = np.empty(events, np.int64)
            labels[event_order] = label_columns["label"][label_order]
            columns["label"] = labels
            return f"one for each event, of its source, from {path.name}"
    return f"{len(label_columns['node']):,} in {path.name}, not one for each source and time of the {events:,} events: not kept"


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    shapes = read_shapes(path)
    if missing := [key for key in ARRAYS if len(shapes.get(key, ())) != 1]:
        raise UserError(f"{path}: expected the arrays indptr, indices, ts, eid of one dimension; {missing[0]} is not there or another")
    if len({shapes[key] for key in ARRAYS[1:]}) > 1:
        raise UserError(f"{path}: indices, ts and eid are of different lengths")
    return shapes


def _integer_array(path: Path, arrays: EventColumns, key: str) -> Int64:
    if arrays[key].dtype.kind not in "iu":
        raise UserError(f"{path}: {key}: expected integers, found {arrays[key].dtype}")
    return arrays[key].astype(np.int64)


def _read_matrix(folder: Path, name: str) -> tuple[Path, NDArray[Any]] | None:
    files = [path for path in (folder / f"{name}.pt", folder / f"{name}.npy") if path.exists()]
    if not files:
        return None
    if len(files) > 1:
        raise UserError(f"{files[0]}: {files[1].name} is there too; keep the one that is meant")
    return files[0], read_matrix(files[0])


def read_matrix(path: Path) -> NDArray[Any]:
    """Read a table of features from a .pt or .npy file, rows [n, D], the latter mapped into memory. Raises UserError for anything else."""
    rows = read_tensor(path) if path.suffix == ".pt" else read_array(path, mmap=True)
    if rows.ndim != 2 or rows.dtype.kind not in "iufb":
        raise UserError(f"{path}: expected numbers in 2 dimensions, found {rows.dtype} {list(rows.shape)}")
    return rows


def _as_float32(rows: NDArray[Any]) -> Float32:
    """Return rows as float32, row by row in memory: the same array where it is so already."""
    return rows if rows.dtype == np.float32 and rows.flags.c_contiguous else map_rows(rows, lambda block: block, np.float32)
