"""Signals: readings at the nodes of a static graph (ST), trained in batches of windows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.datasets.catalogue import Published
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.windows import Windows
from chronoscale.errors import UserError
from chronoscale.harness.fact import Fact, Facts
from chronoscale.harness.family import Trained
from chronoscale.harness.runs import Run
from chronoscale.harness.signals import data, training
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.harness.signals.probing import SignalProbes, feeds
from chronoscale.strategies.pgt_index.dist_index import DIST_INDEX
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class Signals(Trained[SignalExperiment]):
    """As `Trained` says."""

    name, container = "signals", Signal
    keys, models, preferred = SignalExperiment, FORECASTERS.keys(), DIST_INDEX.name
    workload, train = staticmethod(data.workload), staticmethod(training.train)
    store, stored = staticmethod(data.stored), staticmethod(data.loaded)

    def probed(self, planner: Strategy) -> str:
        return str(feeds(planner).feeding)

    def probes(self, experiment: SignalExperiment, run: Run, folder: Path) -> SignalProbes:
        return SignalProbes(experiment, run, folder)

    def size(self, work: Workload) -> str:
        return f"{work.signal.steps} steps of {work.signal.sensors} sensors"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"windows": len(work.windows), "host_bytes": schedule.host}

    def notes(self, experiment: SignalExperiment, run: Run) -> list[str]:
        batches = experiment.training.batches
        said = [f"{run.folder.name}: an epoch is its first {batches} optimiser steps and as many validation batches."] if batches else []
        return said + ([run.read(data.NOTE, data.Said).note] if (run.folder / data.NOTE).exists() else [])

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
            Fact("sensors without a reading", len(dead), f"{len(dead):,}" + (f": {data.silenced(found)}" if len(dead) else "")),
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
