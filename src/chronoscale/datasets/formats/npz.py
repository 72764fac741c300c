"""NumPy archives: snapshots (src, dst, ptr), events (src, dst, t) or a signal (x, edge_index), told apart by their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import MAX_NODES, Int64, require_ids
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

Arrays = dict[str, NDArray[Any]]


def read(path: str | Path, *, values: str = "x", weight: str = "edge_weight") -> SnapshotSequence | EventStream | Signal:
    """Read an archive of the keys

    snapshots: src, dst [E], ptr [T+1], num_nodes, and if present weight [E], snapshot [T] (labels, integers or `YYYY-MM`);
    events: src, dst, t [M], num_nodes or node_names [N]; other numeric [M] arrays become features, in the archive's order;
    signal: `values` [T, N] or [T, N, C] (NaN: no reading), edge_index [2, E], and if present `weight` [E].
    Raises UserError naming the file, and the key where one is missing or wrong.
    """
    path = Path(path)
    arrays = read_archive(path)
    try:
        if {"src", "dst", "ptr"} <= arrays.keys():
            return _snapshots(path, arrays)
        if {"src", "dst", "t"} <= arrays.keys():
            return _events(path, arrays)
        if {values, "edge_index"} <= arrays.keys():
            return _signal(path, arrays, values, weight)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    wanted = f"src, dst, ptr or src, dst, t or {values}, edge_index"
    raise UserError(f"{path}: expected the keys {wanted}; found {', '.join(sorted(arrays)) or 'none'}")


def _snapshots(path: Path, arrays: Arrays) -> SnapshotSequence:
    src, dst, ptr = (_numbers(arrays, key, "iu", 1).astype(np.int64) for key in ("src", "dst", "ptr"))
    weight = _numbers(arrays, "weight", "iuf", 1) if "weight" in arrays else None
    labels = _labels(arrays["snapshot"]) if "snapshot" in arrays else None
    return SnapshotSequence.from_edges(_num_nodes(arrays, src, dst), ptr, src, dst, weight, path.parent.name, labels)


def _events(path: Path, arrays: Arrays) -> EventStream:
    src, dst = (_numbers(arrays, key, "iu", 1).astype(np.int64) for key in ("src", "dst"))
    t = _numbers(arrays, "t", "iuf", 1)
    nodes = _num_nodes(arrays, src, dst)
    require_ids(src, "src", nodes)
    require_ids(dst, "dst", nodes)
    extra = [a for key, a in arrays.items() if key not in ("src", "dst", "t") and a.shape == t.shape and a.dtype.kind in "iuf"]
    features = np.stack(extra, axis=1).astype(np.float32) if extra else None
    time = t.astype(np.int64) if t.dtype.kind in "iu" else t.astype(np.float64)
    return EventStream(nodes, src.astype(np.int32), dst.astype(np.int32), time, features, name=path.parent.name)


def _signal(path: Path, arrays: Arrays, values: str, weight: str) -> Signal:
    x = _numbers(arrays, values, "iuf", 2, 3)
    exact = x.dtype.itemsize > 4 or (x.dtype.kind in "iu" and x.dtype.itemsize == 4 and np.abs(x).max(initial=0) > 2**24)
    x = x.astype(np.float64 if exact else np.float32)
    edge_index = _numbers(arrays, "edge_index", "iu", 2).astype(np.int64)
    require_ids(edge_index.ravel(), "edge_index", x.shape[1])
    edge_weight = _numbers(arrays, weight, "iuf", 1).astype(np.float32) if weight in arrays else None
    return Signal.from_readings(x if x.ndim == 3 else x[:, :, None], edge_index.astype(np.int32), edge_weight, name=path.parent.name)


def _numbers(arrays: Arrays, key: str, kinds: str, *dimensions: int) -> NDArray[Any]:
    array = arrays[key]
    if array.dtype.kind not in kinds or array.ndim not in dimensions:
        what = "integers" if "f" not in kinds else "numbers"
        raise UserError(f"{key}: expected {what} in {' or '.join(map(str, dimensions))} dimensions, got {array.dtype} {array.shape}")
    return array


def _num_nodes(arrays: Arrays, src: Int64, dst: Int64) -> int:
    if "num_nodes" in arrays:
        return int(_numbers(arrays, "num_nodes", "iu", 0))
    if "node_names" in arrays:
        return len(arrays["node_names"])
    return min(int(max(src.max(initial=-1), dst.max(initial=-1))) + 1, MAX_NODES)


def _labels(names: NDArray[Any]) -> Int64:
    """Integers as they are; `YYYY-MM` as YYYYMM."""
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    text = [name.decode() if isinstance(name, bytes) else str(name) for name in names.tolist()]
    if not all(name.replace("-", "").isdecimal() for name in text):
        raise UserError(f"snapshot: expected integers or YYYY-MM, found '{next(n for n in text if not n.replace('-', '').isdecimal())}'")
    return np.array([int(name.replace("-", "")) for name in text], dtype=np.int64)
