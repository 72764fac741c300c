"""Archives (.npz), spoilt by arrays and by bytes, against NumPy's own reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fuzz.spoil import spoilt

from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

Arrays = dict[str, np.ndarray[Any, Any]]
DTYPES = ("int8", "uint8", "int16", "int32", "uint64", "float16", "float32", "float64", "bool", "complex64", "U3", "S3", "M8[s]")
VALUES = (-1, 0, 1, 2.5, np.nan, np.inf, 2**31, 2**53 + 1, 2**62, 1e300)
KINDS: tuple[Arrays, ...] = (
    {
        "src": np.array([0, 1, 1]),
        "dst": np.array([1, 2, 2]),
        "ptr": np.array([0, 1, 3]),
        "weight": np.array([1, 2, 3]),
        "snapshot": np.array([b"2009-10", b"2009-11"]),
        "num_nodes": np.array(4),
    },
    {
        "src": np.array([0, 1, 1]),
        "dst": np.array([1, 2, 2]),
        "t": np.array([5, 6, 6]),
        "delay": np.ones(3),
        "node_names": np.array([*"abcd"]),
    },
    {"x": np.arange(6.0).reshape(3, 2), "edge_index": np.array([[0, 1], [1, 0]]), "edge_weight": np.array([0.5, 1])},
)  # fmt: skip


def attempt_one(generator: np.random.Generator, folder: Path) -> str | None:
    """As `fuzz.attempts.Target` says."""
    arrays = dict(KINDS[int(generator.integers(len(KINDS)))])
    for _ in range(int(generator.integers(1, 4))):
        _change(generator, arrays)
    path = folder / "a.npz"
    np.savez(path, **arrays)
    if generator.random() < 0.3:
        path.write_bytes(spoilt(generator, path.read_bytes()))
    try:
        dataset = open_dataset(path, "npz")
    except UserError as error:
        return None if str(path) in str(error) and "\n" not in str(error) else f"said badly: {error!r}"
    with np.load(path) as archive:
        stored: Arrays = dict(archive)
    difference = _differs(dataset, stored)
    return difference and f"{difference}\n{ {key: (array.dtype, array.tolist()) for key, array in stored.items()} }"


def _change(generator: np.random.Generator, arrays: Arrays) -> None:
    keys = list(arrays)
    key, other = (keys[int(k)] for k in generator.integers(len(keys), size=2))
    change = int(generator.integers(7))
    if change == 0 and len(keys) > 1:
        del arrays[key]
    elif change == 1:
        arrays[f"{key}s"] = arrays.pop(key)
    elif change == 2:
        arrays[key] = arrays[other]
    elif change == 3:
        with np.errstate(all="ignore"):
            try:
                arrays[key] = arrays[key].astype(DTYPES[int(generator.integers(len(DTYPES)))])
            except (ValueError, TypeError, RuntimeError):
                arrays[key] = np.zeros(0)
    elif change == 4:
        arrays[key] = arrays[key][None] if generator.random() < 0.5 else arrays[key].ravel()[: int(generator.integers(4))]
    elif change == 5 and arrays[key].size and arrays[key].dtype.kind in "iuf":
        value = VALUES[int(generator.integers(len(VALUES)))]
        wide = arrays[key].astype(np.float64 if isinstance(value, float) else np.int64)
        wide.flat[int(generator.integers(wide.size))] = value
        arrays[key] = wide
    else:
        arrays[key] = np.concatenate([np.atleast_1d(arrays[key])] * 2)


def _differs(dataset: object, arrays: Arrays) -> str | None:
    if isinstance(dataset, Signal):
        here = np.where(dataset.missing, np.nan, dataset.values) if dataset.missing is not None else dataset.values
        same = np.array_equal(here.ravel(), arrays["x"].astype(here.dtype).ravel(), equal_nan=True)
        edges = arrays.get("edge_index", np.zeros((2, 0)))  # without it there is none
        return None if same and np.array_equal(dataset.edge_index, edges) else "a signal differs"
    if isinstance(dataset, EventStream):
        order = np.argsort(arrays["t"], kind="stable")
        same = all(np.array_equal(getattr(dataset, key), arrays[key][order]) for key in ("src", "dst", "t"))
        wide = [
            (array if array.ndim == 2 else array[:, None])
            for key, array in arrays.items()
            if f"{key} (feature)" in dataset.account["arrays"]
        ]
        stacked = np.concatenate(wide, 1).astype(np.float32)[order] if wide else None
        same_features = (dataset.features is None) if stacked is None else np.array_equal(stacked, dataset.features)  # type: ignore[arg-type]
        return None if same and same_features else "a stream differs"
    assert isinstance(dataset, SnapshotSequence)
    for t in range(len(dataset)):
        part = slice(int(arrays["ptr"][t]), int(arrays["ptr"][t + 1]))
        weight = arrays["weight"][part].tolist() if "weight" in arrays else [0] * len(arrays["src"][part])
        weights: dict[tuple[int, int], float] = {}
        for u, v, w in zip(arrays["src"][part].tolist(), arrays["dst"][part].tolist(), weight, strict=True):
            weights[u, v] = float(np.float32(weights.get((u, v), 0)) + np.float32(w))
        shown = dataset[t].weight
        here = dict(
            zip(
                zip(dataset[t].src.tolist(), dataset[t].dst.tolist(), strict=True),
                [0.0] * dataset[t].num_edges if shown is None else shown.tolist(),
                strict=True,
            )
        )
        if here != weights:
            return f"snapshot {t} differs: {here}, not {weights}"
    return None
