"""Data files: a sample of every reader, spoilt. It is refused in one line that names a file, or read as an independent reading has it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import archives, independent
from fuzz.samples import SAMPLES, Sample
from fuzz.spoil import spoilt

from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError


def attempt(generator: np.random.Generator, folder: Path) -> str | None:
    """As `fuzz.attempts.Target` says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChronoscaleWarning)
        if generator.random() < 0.15:
            return archives.attempt_one(generator, folder)
        sample = SAMPLES[int(generator.integers(len(SAMPLES)))]
        sample.write(folder)
        file = folder / sample.spoil
        whole = file.read_bytes()
        file.write_bytes(spoilt(generator, whole))
        problem = _judged(sample, folder, None if generator.random() < 0.5 else sample.format, bool(generator.random() < 0.3), whole)
        return problem and f"{sample.format}, {sample.options}: {problem}\n{sample.spoil}: {file.read_bytes()[:400]!r}"


def _judged(sample: Sample, folder: Path, format: str | None, strict: bool, whole: bytes) -> str | None:
    path = folder / sample.open
    options: dict[str, Any] = dict(sample.options)
    try:
        format = format or detect(path)
        if strict and format in independent.LAYOUTS:
            options["strict"] = True
        dataset = open_dataset(path, format, **options)
    except UserError as error:
        if (folder / sample.spoil).read_bytes() == whole and format == sample.format:
            return f"refused as it was: {error}"
        named = str(folder) in str(error)
        return None if named and "\n" not in str(error) else f"said badly: {error!r}"
    if format == "table" and sample.format != format:
        return None  # names of columns, spoilt, are those of somebody's table; what they make of it is no other reading's to say
    try:
        return _differs(dataset, path, format, options)
    except independent.Wrong as reason:
        return f"read, though {reason}"


def _differs(dataset: Dataset, path: Path, format: str, options: dict[str, Any]) -> str | None:
    if format == "store":
        meta = json.loads((path / "meta.json").read_text())
        arrays = {name: np.load(path / f"{name}.npy") for name in meta["arrays"]}
        wrong = [name for name, array in arrays.items() if not np.array_equal(getattr(dataset, name), array)]
        wrong += [name for name, value in meta["scalars"].items() if getattr(dataset, name) != value]
        return f"{wrong} differ" if wrong else None
    if isinstance(dataset, EventStream):
        if format == "table":
            return table_differs(dataset, independent.table_events(path, options))
        return stream_differs(dataset, independent.events(path, format, options), bool(options.get("strict")))
    assert isinstance(dataset, Signal)
    values, edges = independent.readings(path, format)
    here = np.where(dataset.missing, np.nan, dataset.values) if dataset.missing is not None else dataset.values
    if here.shape != values.shape or not np.array_equal(here, values.astype(here.dtype), equal_nan=True):
        return f"readings differ: {here.tolist()}, not {values.tolist()}"
    if edges is not None and [*zip(*dataset.edge_index.tolist(), strict=True)] != edges:
        return f"edges differ: {dataset.edge_index.T.tolist()}, not {edges}"
    return None


def table_differs(stream: EventStream, expected: list[tuple[str, str, float, list[float]]]) -> str | None:
    """Where a stream with names of nodes is not what another reading of its table tells."""
    names = stream.node_ids if stream.node_names is None else stream.node_names
    assert names is not None and stream.features is not None
    ends = (map(str, names[ids].tolist()) for ids in (stream.src, stream.dst))
    here = [*zip(*ends, stream.t.tolist(), stream.features.tolist(), strict=True)]
    there = [(u, v, t, np.array(f, np.float32).tolist()) for u, v, t, f in sorted(expected, key=lambda event: event[2])]
    return None if here == there else f"events differ: {here}, not {there}"


def stream_differs(stream: EventStream, expected: independent.Events, strict: bool) -> str | None:
    """Where a stream is not what another reading of its file tells."""
    order = [*range(len(expected.time))] if strict else sorted(range(len(expected.time)), key=expected.time.__getitem__)
    assert stream.node_ids is not None
    pairs = {
        "src": (stream.node_ids[stream.src].tolist(), [expected.src[i] for i in order]),
        "dst": (stream.node_ids[stream.dst].tolist(), [expected.dst[i] for i in order]),
        "time": (stream.t.tolist(), [expected.time[i] for i in order]),
        "labels": ([] if stream.labels is None else stream.labels.tolist(), [expected.labels[i] for i in order] if expected.labels else []),
        "features": (
            [[]] * len(order) if stream.features is None else stream.features.tolist(),
            [np.array(expected.features[i], np.float32).tolist() for i in order],
        ),
    }
    return next((f"{what} differs: {here}, not {there}" for what, (here, there) in pairs.items() if here != there), None)
