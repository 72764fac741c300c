"""Probing: what a profile of a signal times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import item
from chronoscale.harness.planners import planners
from chronoscale.harness.practice import Candidate, Probes
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.signals.data import loaded, stored
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.signals.probe import SignalProbe, signal_probes
from chronoscale.strategies.signals.strategy import SignalStrategy
from chronoscale.strategies.strategy import Strategy


def feeds(planner: Strategy) -> SignalStrategy:
    """A strategy that says how it feeds its batches. Raises UserError for another."""
    if not isinstance(planner, SignalStrategy):
        raise UserError(f"strategy '{planner.name}': one on signals is a SignalStrategy, so that its batches can be executed")
    return planner


class SignalProbes(Probes):
    """Short epochs on the signal itself."""

    def __init__(self, experiment: SignalExperiment, run: Run, folder: Path) -> None:
        self._folder, self._data = folder, stored(experiment, run)
        self._work, self._planners = loaded(experiment, self._data), [feeds(planner) for planner in planners(experiment).values()]

    def of(self, ranks: int) -> Iterator[Candidate]:
        """As `Probes.of`."""
        for probe in signal_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield Candidate(label, probe.schedule, partial(self._item, label, probe, ranks))

    def _item(self, label: str, probe: SignalProbe, ranks: int) -> Item:
        prepare = self._folder / f"{probe.feed}-x{ranks}.prepare.parquet"
        if not prepare.exists():
            probe.prepare.save(prepare)
        return replace(item(self._folder, label, probe.schedule, self._data, probe.hyper), prepare=str(prepare))
