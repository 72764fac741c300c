"""SignalStrategy: a strategy on signals, defined by a name and a way to feed batches."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals import batches
from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class SignalStrategy(Strategy):
    """Planner of epochs on a signal: strategies differ only in where readings lie and how batches come from there (`feeding`)."""

    name: str
    title: str
    source: str
    feeding: SignalFeeding
    summary: str = ""
    family = "signals"
    kind = "windows"
    prepares = True

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

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan what happens once before the first epoch: standardising, and moving readings to where they are kept. Raises UserError for
        another family or a series that is too short."""
        return batches.plan_preparation(self.name, workload, ranks, self.feeding)
