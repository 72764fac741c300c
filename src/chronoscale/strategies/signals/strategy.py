"""SignalStrategy: a strategy on signals, defined by a name and a way to feed batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals import batches
from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trained_work import TrainedWork, trained_work
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class SignalStrategy(Strategy):
    """Planner of epochs on a signal: strategies differ only in where readings lie and how batches come from there (`feeding`)."""

    name: str
    title: str
    source: str
    feeding: SignalFeeding
    summary: str = ""
    ablates: str = ""
    family = "signals"
    kind = "windows"
    prepares = True

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch on a signal. Raises UserError for another family or a series that is too short."""
        return batches.plan_epoch(self.name, workload, ranks, self.feeding)

    def rows(self, workload: Workload, ranks: int) -> int:
        """Estimate the rows of a plan on a signal before it is made: every batch's operations, and every rank's ends of training and
        validation."""
        hyper, windows = workload.hyper, len(workload.windows)
        batches = -(-windows // hyper.batch_size)
        if hyper.batches:
            batches = min(batches, 2 * hyper.batches * ranks)
        return 6 * batches + 12 * ranks

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what the first epoch trains on: the windows of all ranks' batches in each optimiser step."""
        dealt = self.feeding.training(workload.windows, workload.hyper, schedule.ranks)
        if not dealt.local:  # one order, of which ranks take turns
            dealt = replace(dealt, ranks=1, batch=dealt.batch * dealt.ranks)
        batches = [dealt.starts(rank, 0) for rank in range(dealt.ranks)]
        windows = [np.concatenate(step) for step in zip(*batches, strict=True)]
        steps = np.repeat(np.arange(len(windows)), [len(step) for step in windows])
        return trained_work(steps, np.concatenate([*windows, np.empty(0, np.int64)]), 1)

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan what happens once before the first epoch: standardising, and moving readings to where they are kept. Raises UserError for
        another family or a series that is too short."""
        return batches.plan_preparation(self.name, workload, ranks, self.feeding)
