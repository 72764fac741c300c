"""Signals: readings at the nodes of a static graph (ST), trained in batches of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.entries import Published
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.harness.fact import Fact, Facts
from chronoscale.harness.family import Family
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.harness.signals.silenced import silenced
from chronoscale.strategies.pgt_index.index_batching import DIST_INDEX
from chronoscale.strategies.signals.forecasters import FORECASTERS


class Signals(Family):
    """As `Family` says."""

    name, container = "signals", Signal
    keys, models, preferred = SignalExperiment, FORECASTERS.keys(), DIST_INDEX.name

    def describe(self, found: Signal, horizon: int) -> Facts:
        steps, sensors, channels = found.values.shape
        absent, dead = found.missing_count, found.dead_sensors
        return [
            Fact("sensors", sensors),
            Fact("steps", steps),
            Fact("channels", channels, f"{channels:,}" + (f", the last {found.calendar} of the calendar" if found.calendar else "")),
            Fact("edges", found.edge_index.shape[1]),
            Fact("self-loops", int(np.count_nonzero(found.edge_index[0] == found.edge_index[1]))),
            Fact("missing readings", absent, f"{absent:,} ({absent / max(found.values.size, 1):.2%})"),
            Fact("sensors without a reading", len(dead), f"{len(dead):,}" + (f": {silenced(found)}" if len(dead) else "")),
            *_sizes((steps, sensors, channels), horizon, found.values.dtype),
        ]

    def printed(self, counts: Published, horizon: int) -> Facts:
        if not counts.steps or not counts.node_features:
            return []
        return _sizes((counts.steps, counts.nodes, counts.node_features), horizon, np.dtype(np.float64), "published counts, ")


def _sizes(shape: tuple[int, int, int], horizon: int, dtype: np.dtype[Any], of: str = "") -> Facts:
    """Bytes of [steps, sensors, channels]: one array, all windows copied out (PGT-I eq. 1), one array and an index (eq. 2)."""
    steps, sensors, channels = shape
    rows = [Fact(f"bytes, one array ({of}{dtype})", steps * sensors * channels * dtype.itemsize)]
    labels = [f"bytes, {what} ({of}{dtype}, horizon {horizon})" for what in ("windows copied, eq. 1", "index-batching, eq. 2")]
    try:
        windows = Windows(steps, horizon, horizon)
    except UserError as error:
        return rows + [Fact(label, None, str(error)) for label in labels]
    sizes = (size(sensors, channels, dtype.itemsize) for size in (windows.materialised_bytes, windows.index_bytes))
    return rows + [Fact(label, int(size)) for label, size in zip(labels, sizes, strict=True)]
