"""Reader of NumPy archives: snapshots (src, dst, ptr), events (src, dst, t) or a signal (x, edge_index), told apart by their keys."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.account import Account
from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import MAX_NODES, Int64, find_not_finite, require, require_ids
from chronoscale.datasets.formats.event_order import EventOrder, OrderPolicy, Sort, Strict, order_policy
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.signals.axes import Axes, time_first
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence, require_classes
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

Arrays = dict[str, NDArray[Any]]


def read(
    path: str | Path,
    *,
    values: Annotated[str | None, "key of a signal's readings; x without it"] = None,
    weight: Annotated[str | None, "key of its edges' weights; edge_weight without it, where there is one"] = None,
    ignore: Annotated[str | tuple[str, ...], "keys of arrays that are meant to be left out"] = (),
    axes: Axes = None,
    missing: Missing = None,
    time_of_day: TimeOfDay = False,
    sort: Sort = False,
    strict: Strict = False,
) -> SnapshotSequence | EventStream | Signal:
    """Read a dataset from a NumPy archive, whose keys say of which kind it is:

    - snapshots: src, dst [E], ptr [T+1], num_nodes, and if present weight [E], snapshot [T] (labels, integers or `YYYY-MM`), classes [N]
      (of nodes, from 0; -1: unlabelled);
    - events: src, dst, t [M], num_nodes or node_names [N]; other numeric [M] or [M, D] arrays become features, in the archive's order;
    - signal: `values` [T, N] or [T, N, C] (NaN: no reading), and if present edge_index [2, E] and `weight` [E]; without edge_index there is
      no edge. axes: order of the readings' first two.

    Warns of arrays that are not read and not named by `ignore`. Raises UserError naming the file, and the key where one is missing or
    wrong, and where the axes of a signal look swapped.
    """
    path = Path(path)
    arrays = read_archive(path)
    left_out = ignore.replace(",", " ").split() if isinstance(ignore, str) else list(ignore)
    for option, key in (("values", values), ("weight", weight), *(("ignore", key) for key in left_out)):
        if key is not None and key not in arrays:
            raise UserError(f"{path}: {option}: no array '{key}'; found {', '.join(sorted(arrays)) or 'none'}")
    selected = {key: array for key, array in arrays.items() if key not in left_out}
    try:
        if _is_signal(selected, values or "x"):
            signal, read = _read_signal(path, selected, values or "x", weight, axes)
            return apply_signal_options(replace(signal, account=_describe(path, arrays, read, left_out)), missing, time_of_day)
        signal_options = {"values": values, "weight": weight, "axes": axes, "missing": missing, "time_of_day": time_of_day or None}
        if unused := [name for name, value in signal_options.items() if value is not None]:
            raise UserError(
                f"{unused[0]}: an option of a signal, and there are src and dst, or no {values or 'x'}; found {', '.join(sorted(arrays))}"
            )
        if {"src", "dst", "ptr"} <= selected.keys():
            snapshots, read = _read_snapshots(path, selected)
            return replace(snapshots, account={**_describe(path, arrays, read, left_out), **snapshots.account})
        if {"src", "dst", "t"} <= selected.keys():
            events, read = _read_events(path, selected, order_policy(sort, strict))
            return replace(events, account={**_describe(path, arrays, read, left_out), **events.account})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    readings = [key for key, array in selected.items() if array.ndim in (2, 3) and array.dtype.kind in "iuf" and key != "edge_index"]
    hint = f"; if {readings[0]} has a signal's readings, say so by the option values={readings[0]}" if len(readings) == 1 else ""
    raise UserError(f"{path}: expected the keys src, dst, ptr or src, dst, t or x; found {', '.join(sorted(arrays)) or 'none'}{hint}")


def _is_signal(arrays: Arrays, values: str) -> bool:
    """Whether there are readings, and not the columns of snapshots or events, of which what is called so may be a feature."""
    return values in arrays and ("edge_index" in arrays or not {"src", "dst"} <= arrays.keys())


def _describe(path: Path, arrays: Arrays, read: list[str], left_out: list[str]) -> Account:
    """Describe what has been read of an archive, and warn of arrays that are neither read nor left out on purpose.

    read: the key of every array that is read and, in brackets, what it has become.
    """
    dropped = [key for key in arrays if key not in {name.split(" ")[0] for name in read}]
    if unread := [key for key in dropped if key not in left_out]:
        message = f"{path}: arrays that nobody reads: {', '.join(unread)}; the option ignore={','.join(unread)} says that this is meant"
        warnings.warn(message, ChronoscaleWarning, stacklevel=3)
    return {"files": [path.name], "arrays": read, "dropped": dropped}


def _read_snapshots(path: Path, arrays: Arrays) -> tuple[SnapshotSequence, list[str]]:
    src, dst, ptr = (_number_array(arrays, key, "iu", 1) for key in ("src", "dst", "ptr"))
    weight = _number_array(arrays, "weight", "iuf", 1) if "weight" in arrays else None
    labels = _labels(arrays["snapshot"]) if "snapshot" in arrays else None
    read = [key for key in arrays if key in ("src", "dst", "ptr", "weight", "snapshot", "num_nodes", "classes")]
    sequence = SnapshotSequence.from_edges(_num_nodes(arrays, src, dst, read), ptr, src, dst, weight, path.parent.name, labels)
    if "classes" in arrays:
        classes = _number_array(arrays, "classes", "iu", 1)
        require_classes(classes, "classes")
        require(classes, "classes", "int64", (sequence.num_nodes,))
        sequence = replace(sequence, classes=classes.astype(np.int32))
    return replace(sequence, account={"merged": f"{src.size - sequence.num_edges:,} repeated edges"}), read


def _read_events(path: Path, arrays: Arrays, order: OrderPolicy) -> tuple[EventStream, list[str]]:
    src, dst = (_number_array(arrays, key, "iu", 1) for key in ("src", "dst"))
    t = _number_array(arrays, "t", "iuf", 1)
    read = ["src", "dst", "t"]
    nodes = _num_nodes(arrays, src, dst, read)
    require_ids(src, "src", nodes)
    require_ids(dst, "dst", nodes)
    extra = [key for key, a in arrays.items() if key not in read and a.ndim in (1, 2) and a.shape[:1] == t.shape and a.dtype.kind in "iuf"]
    wide = [(arrays[key] if arrays[key].ndim == 2 else arrays[key][:, None]).astype(np.float32) for key in extra]
    features = np.concatenate(wide, axis=1) if extra else None
    time = t.astype(np.int64) if t.dtype.kind in "iu" else t.astype(np.float64)
    if (place := find_not_finite(time)) is not None:
        raise UserError(f"t[{place}]: expected a finite number, found {time[place]}")
    require(src, "src", "int64", (t.size,))
    require(dst, "dst", "int64", (t.size,))
    placed = EventOrder(
        time, order, lambda place, problem: UserError(f"t[{place}]: {problem}" if order == "refuse" else f"{path}: t[{place}]: {problem}")
    )
    src, dst, time, features = map(placed.sort, (src.astype(np.int32), dst.astype(np.int32), time, features))
    stream = EventStream(nodes, src, dst, time, features, name=path.parent.name, account=placed.account)
    return stream, read + [f"{key} (feature)" for key in extra]


def _read_signal(path: Path, arrays: Arrays, values: str, weight: str | None, axes: str | None) -> tuple[Signal, list[str]]:
    x = _number_array(arrays, values, "iuf", 2, 3)
    exact = x.dtype.itemsize > 4 or (x.dtype.kind in "iu" and x.dtype.itemsize == 4 and np.abs(x).max(initial=0) > 2**24)
    x = x.astype(np.float64 if exact else np.float32)
    edge_index = _number_array(arrays, "edge_index", "iu", 2) if "edge_index" in arrays else np.zeros((2, 0), np.int64)
    x = time_first(x, axes, int(edge_index.max(initial=-1)) + 1)
    require_ids(edge_index.ravel(), "edge_index", x.shape[1])
    key = weight or "edge_weight"
    edge_weight = _number_array(arrays, key, "iuf", 1).astype(np.float32) if key in arrays else None
    signal = Signal.from_readings(x if x.ndim == 3 else x[:, :, None], edge_index.astype(np.int32), edge_weight, name=path.parent.name)
    graph = ["edge_index"] * ("edge_index" in arrays) + [f"{key} (weight)"] * (key in arrays)
    return signal, [f"{values} (values)", *graph]


def _number_array(arrays: Arrays, key: str, kinds: str, *dimensions: int) -> NDArray[Any]:
    array = arrays[key]
    if array.dtype.kind not in kinds or array.ndim not in dimensions:
        numbers = "integers" if "f" not in kinds else "numbers"
        raise UserError(f"{key}: expected {numbers} in {' or '.join(map(str, dimensions))} dimensions, got {array.dtype} {array.shape}")
    if array.dtype.kind == "u":
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise UserError(f"{key}: {array.max()} is beyond int64")
        return array.astype(np.int64)
    return array.astype(np.int64) if "f" not in kinds else array


def _num_nodes(arrays: Arrays, src: Int64, dst: Int64, read: list[str]) -> int:
    """Return the number of nodes; the key that says it is appended to `read`."""
    if "num_nodes" in arrays:
        read += [] if "num_nodes" in read else ["num_nodes"]
        return int(_number_array(arrays, "num_nodes", "iu", 0))
    if "node_names" in arrays:
        names = arrays["node_names"]
        if names.ndim != 1:
            raise UserError(f"node_names: expected one a node, got {names.dtype} {names.shape}")
        read += ["node_names (number of nodes)"]
        return len(names)
    return min(int(max(src.max(initial=-1), dst.max(initial=-1))) + 1, MAX_NODES)


def _labels(names: NDArray[Any]) -> Int64:
    """Return labels of snapshots, int64 [T]: integers as they are, text `YYYY-MM` as YYYYMM. Raises UserError for other text."""
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    text = [name.decode() if isinstance(name, bytes) else str(name) for name in names.tolist()]
    if not all(name.replace("-", "").isdecimal() for name in text):
        raise UserError(f"snapshot: expected integers or YYYY-MM, found '{next(n for n in text if not n.replace('-', '').isdecimal())}'")
    return np.array([int(name.replace("-", "")) for name in text], dtype=np.int64)
