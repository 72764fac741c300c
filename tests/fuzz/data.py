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
        said = _judged(sample, folder, None if generator.random() < 0.5 else sample.format, bool(generator.random() < 0.3), whole)
        return said and f"{sample.format}, {sample.options}: {said}\n{sample.spoil}: {file.read_bytes()[:400]!r}"


def _judged(sample: Sample, folder: Path, format: str | None, strict: bool, whole: bytes) -> str | None:
    path = folder / sample.open
    options: dict[str, Any] = dict(sample.options)
    try:
        format = format or detect(path)
        if strict and format in independent.LAYOUTS:
            options["strict"] = True
        found = open_dataset(path, format, **options)
    except UserError as error:
        if (folder / sample.spoil).read_bytes() == whole and format == sample.format:
            return f"refused as it was: {error}"
        named = str(folder) in str(error)
        return None if named and "\n" not in str(error) else f"said badly: {error!r}"
    try:
        return _differs(found, path, format, options)
    except independent.Wrong as reason:
        return f"read, though {reason}"


def _differs(found: Dataset, path: Path, format: str, options: dict[str, Any]) -> str | None:
    if format == "store":
        meta = json.loads((path / "meta.json").read_text())
        arrays = {name: np.load(path / f"{name}.npy") for name in meta["arrays"]}
        wrong = [name for name, array in arrays.items() if not np.array_equal(getattr(found, name), array)]
        wrong += [name for name, value in meta["scalars"].items() if getattr(found, name) != value]
        return f"{wrong} differ" if wrong else None
    if isinstance(found, EventStream):
        return stream_differs(found, independent.events(path, format, options), bool(options.get("strict")))
    assert isinstance(found, Signal)
    values, edges = independent.readings(path, format)
    here = np.where(found.missing, np.nan, found.values) if found.missing is not None else found.values
    if here.shape != values.shape or not np.array_equal(here, values.astype(here.dtype), equal_nan=True):
        return f"readings differ: {here.tolist()}, not {values.tolist()}"
    if edges is not None and [*zip(*found.edge_index.tolist(), strict=True)] != edges:
        return f"edges differ: {found.edge_index.T.tolist()}, not {edges}"
    return None


def stream_differs(found: EventStream, told: independent.Events, strict: bool) -> str | None:
    """Where a stream is not what another reading of its file tells."""
    order = [*range(len(told.time))] if strict else sorted(range(len(told.time)), key=told.time.__getitem__)
    assert found.node_ids is not None
    pairs = {
        "src": (found.node_ids[found.src].tolist(), [told.src[i] for i in order]),
        "dst": (found.node_ids[found.dst].tolist(), [told.dst[i] for i in order]),
        "time": (found.t.tolist(), [told.time[i] for i in order]),
        "labels": ([] if found.labels is None else found.labels.tolist(), [told.labels[i] for i in order] if told.labels else []),
        "features": (
            [[]] * len(order) if found.features is None else found.features.tolist(),
            [np.array(told.features[i], np.float32).tolist() for i in order],
        ),
    }
    return next((f"{what} differs: {here}, not {there}" for what, (here, there) in pairs.items() if here != there), None)
