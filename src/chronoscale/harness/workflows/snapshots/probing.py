"""Probing: what a profile of snapshots times, for the kinds of schedules that an experiment's strategies have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from chronoscale.datasets import store
from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.workflows.execution import ProbeCandidate, Probes
from chronoscale.harness.workflows.snapshots.data import load_snapshots, shape_of
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.snapshots.probe import Probe, probes
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.strategy import Strategy


def probed_kinds(planner: Strategy) -> set[str]:
    """Return the kinds of schedules that `chronoscale profile` times for a strategy: its own, "groups" for one that cannot be executed, and
    "shared" beside it where groups share rows."""
    shares = isinstance(planner, GroupStrategy) and planner.reuse.rows
    return {planner.kind if planner.executes else "groups", *(["shared"] if shares else [])}


class SnapshotProbes(Probes):
    """Short epochs on an experiment's own snapshots and on generated ones, for `chronoscale profile` to time."""

    def __init__(self, experiment: SnapshotExperiment, folder: Path) -> None:
        self._experiment, self._folder = experiment, folder
        self._snapshots = load_snapshots(experiment)
        self._shape = shape_of(experiment, self._snapshots)
        if not len(self._snapshots.src):
            raise UserError(
                f"dataset '{experiment.dataset.label}' has no edges in the snapshots that are used: a profile has nothing to time"
            )
        self._kinds = set().union(*map(probed_kinds, planners(experiment).values()))

    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        hyper, seed = self._experiment.hyper, self._experiment.seed
        for probe in probes(self._snapshots, self._shape, hyper, ranks, self._kinds, seed):
            label = f"{probe.label}-x{ranks}"
            yield ProbeCandidate(label, probe.schedule, partial(self._item, label, probe))

    def _item(self, label: str, probe: Probe) -> Item:
        data = self._folder / probe.label
        if not data.exists():
            store.save(data, probe.snapshots)
        item = make_item(self._folder, label, probe.schedule, data, probe.hyper)
        if probe.parts is None:
            return item
        np.save(self._folder / f"{label}.npy", probe.parts)
        return replace(item, parts=str(self._folder / f"{label}.npy"))
