"""Probing: what a profile of a signal times, for the ways in which an experiment's strategies feed batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.workflows.execution import ProbeCandidate, Probes
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.signals.probe import SignalProbe, signal_probes
from chronoscale.strategies.signals.strategy import SignalStrategy
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def batch_planner(strategy: Strategy) -> SignalStrategy:
    """Return a strategy for a signal typed as such, for `chronoscale profile` and `train`, which ask it how batches reach the device.

    Raises UserError for a strategy that is no SignalStrategy.
    """
    if not isinstance(strategy, SignalStrategy):
        raise UserError(f"strategy '{strategy.name}': one on signals is a SignalStrategy, so that its batches can be executed")
    return strategy


class SignalProbes(Probes):
    """Short epochs on an experiment's own signal, for `chronoscale profile` to time; one for every way in which its strategies feed
    batches.
    """

    def __init__(self, data: Path, work: Workload, strategies: Iterable[Strategy], folder: Path) -> None:
        self._data, self._work, self._folder = data, work, folder
        self._planners = [batch_planner(strategy) for strategy in strategies]

    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        for probe in signal_probes(self._work, self._planners, ranks):
            label = f"{probe.label}-x{ranks}"
            yield ProbeCandidate(label, probe.schedule, partial(self._item, label, probe, ranks))

    def _item(self, label: str, probe: SignalProbe, ranks: int) -> Item:
        prepare = self._folder / f"{probe.feed}-x{ranks}.prepare.parquet"
        if not prepare.exists():
            probe.prepare.save(prepare)
        return replace(make_item(self._folder, label, probe.schedule, self._data, probe.hyper), prepare=str(prepare))
