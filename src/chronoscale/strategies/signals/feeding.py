"""SignalFeeding: how a strategy feeds its batches, as `Schedule.feeding` carries it to whoever executes a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.stores import STORES, Store
from chronoscale.strategies.workload import Hyper

LOCAL = "+local"


@dataclass(frozen=True, slots=True)
class SignalFeeding:
    """How a strategy feeds batches of a signal to ranks: where its readings lie (`store`); a schedule carries it as text
    (`Schedule.feeding`) to the ranks that execute it.

    local: each rank's windows come from a fixed part of them, in whole batches (PGT-I §5.4).
    """

    store: Store
    local: bool = False

    def __str__(self) -> str:
        return self.store.name + LOCAL * self.local

    @classmethod
    def of(cls, schedule: Schedule) -> SignalFeeding:
        """Return how a schedule on a signal feeds its batches, read from `Schedule.feeding`. Raises UserError for an unknown store: the
        schedule is of another version."""
        name = schedule.feeding.removesuffix(LOCAL)
        if name not in STORES:
            raise UserError(f"schedule '{schedule.name}': feeding '{schedule.feeding}' is unknown; valid: {', '.join(STORES)}")
        return cls(STORES[name], schedule.feeding.endswith(LOCAL))

    def training(self, windows: Windows, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Return which training windows of a signal each rank takes in each batch, shuffled every epoch."""
        return WindowAssignment(windows.train, ranks, hyper.batch_size, self.local, seed=hyper.seed, limit=hyper.batches)

    def validation(self, windows: Windows, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Return which validation windows of a signal each rank takes in each batch, in order of time; none unless the experiment
        validates."""
        chosen = windows.validation if hyper.validate else range(0)
        return WindowAssignment(chosen, ranks, hyper.batch_size, self.local, shuffled=False, limit=hyper.batches)

    def evaluation(self, windows: range, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Return which of the windows that are evaluated once training has ended each rank takes in each batch: all, in order of time."""
        return WindowAssignment(windows, ranks, hyper.batch_size, self.local, shuffled=False)
