"""Describe: datasets and cost models as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.datasets import catalogue
from chronoscale.datasets.signals.windows import Windows
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Data
from chronoscale.harness.open import opened
from chronoscale.harness.runs import Run
from chronoscale.harness.signals.data import silenced
from chronoscale.strategies.costs import FittedCosts

HORIZON = 12  # of windows where no paper names another, as for PGT-I's traffic sets


def datasets() -> pd.DataFrame:
    """One row a catalogue entry: name, family, origin, nodes and edges as published, papers, source."""
    rows = []
    for name in catalogue.names():
        entry = catalogue.entry(name)
        first = entry.published[0] if entry.published else None
        papers = ", ".join(f"{p.paper} table {p.table}" for p in entry.published)
        rows.append(
            {
                "name": name,
                "family": entry.family,
                "origin": entry.origin,
                "nodes": "" if first is None else f"{first.nodes:,}",
                "edges": "" if first is None or first.edges is None else f"{first.edges:,}",
                "papers": papers,
                "source": entry.source,
            }
        )
    return pd.DataFrame(rows)


def dataset(name: str) -> pd.DataFrame:
    """Key and value: what the papers print, and what is counted where the dataset is at hand. Raises UserError for an unknown name."""
    rows: list[tuple[str, str]] = []
    path, horizon = Path(name), HORIZON
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UserError(f"{name}: no such file or folder")
        entry = catalogue.entry(name)
        horizon = entry.horizon or HORIZON
        rows += [("family", entry.family), ("origin", entry.origin), ("source", entry.source)]
        for counts in entry.published:
            printed = {key: value for key, value in counts.model_dump().items() if key not in ("paper", "table") and value is not None}
            rows.append(
                (f"published ({counts.paper}, table {counts.table})", ", ".join(f"{key} {value:,}" for key, value in printed.items()))
            )
            if entry.family == "st" and counts.steps and counts.node_features:
                rows += _sizes((counts.steps, counts.nodes, counts.node_features), horizon, np.dtype(np.float64), "published counts, ")
        if entry.origin == "published":
            return pd.DataFrame(rows, columns=["what", "value"])
    try:
        found = opened(Data(path=name) if path.exists() else Data(name=name), 0)
    except UserError as error:
        if path.exists():
            raise
        rows.append(("here", str(error)))
    else:
        rows += _counted(found, horizon)
    return pd.DataFrame(rows, columns=["what", "value"])


def _counted(found: Dataset, horizon: int) -> list[tuple[str, str]]:
    if isinstance(found, SnapshotSequence):
        stats = statistics_of(found)
        spans = {"edges a snapshot": stats.edges, "active nodes": stats.nodes}
        spans |= {
            "changed edges": stats.changed_edges[1:],
            "effective edges": stats.effective_edges[1:],
            "touched rows": stats.touched_rows[1:],
        }
        counted = [("nodes", f"{found.num_nodes:,}"), ("snapshots", f"{len(found):,}"), ("edges", f"{int(stats.edges.sum()):,}")]
        return counted + [
            (key, f"{column.min():,} .. {column.max():,}, mean {column.mean():,.0f}") for key, column in spans.items() if len(column)
        ]
    if isinstance(found, EventStream):
        return [("nodes", f"{found.num_nodes:,}"), ("events", f"{len(found.src):,}"), ("time", f"{found.t[0]:,} .. {found.t[-1]:,}")]
    steps, sensors, channels = found.values.shape
    absent, dead = found.missing_count, found.dead_sensors
    return [
        ("sensors", f"{sensors:,}"),
        ("steps", f"{steps:,}"),
        ("channels", f"{channels:,}"),
        ("edges", f"{found.edge_index.shape[1]:,}"),
        ("missing readings", f"{absent:,} ({absent / max(found.values.size, 1):.2%})"),
        ("sensors without a reading", f"{len(dead):,}" + (f": {silenced(found)}" if len(dead) else "")),
        *_sizes((steps, sensors, channels), horizon, found.values.dtype),
    ]


def _sizes(shape: tuple[int, int, int], horizon: int, dtype: np.dtype[Any], of: str = "") -> list[tuple[str, str]]:
    """Bytes of [steps, sensors, channels]: one array, all windows copied out (PGT-I eq. 1), one array and an index (eq. 2)."""
    steps, sensors, channels = shape
    rows = [(f"bytes, one array ({of}{dtype})", f"{steps * sensors * channels * dtype.itemsize:,}")]
    labels = [f"bytes, {what} ({of}{dtype}, horizon {horizon})" for what in ("windows copied, eq. 1", "index-batching, eq. 2")]
    try:
        windows = Windows(steps, horizon, horizon)
    except UserError as error:
        return rows + [(label, str(error)) for label in labels]
    sizes = (size(sensors, channels, dtype.itemsize) for size in (windows.materialised_bytes, windows.index_bytes))
    return rows + [(label, f"{size:,}") for label, size in zip(labels, sizes, strict=True)]


def profile(run: Run) -> pd.DataFrame:
    """The curves of a run's profile, by number of busy ranks."""
    files = sorted((run.folder / "profile").glob("costs-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    return pd.concat([fits(FittedCosts.load(path)).assign(ranks=int(path.stem.split("-")[1])) for path in files], ignore_index=True)


def fits(costs: FittedCosts) -> pd.DataFrame:
    """One row a fitted curve: form, held-out error of it and of the forms not chosen, samples, the range of edges seen."""
    return pd.DataFrame(
        [
            {
                "op": fit.op,
                "width": fit.width,
                "form": fit.form,
                "held-out error %": round(100 * fit.held_out_error, 1),
                "others %": ", ".join(f"{form} {100 * error:.1f}" for form, error in fit.alternatives.items()),
                "samples": fit.samples,
                "edges": f"{fit.low['edges']:,}..{fit.high['edges']:,}",
            }
            for fit in costs.fits
        ]
    )
