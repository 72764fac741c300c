"""Feeding: how a strategy feeds its batches; a schedule carries it, for whoever executes it."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.stores import STORES, Store
from chronoscale.strategies.workload import Hyper

LOCAL = "+local"


@dataclass(frozen=True, slots=True)
class Feeding:
    """Where readings lie; `local`: windows come from a fixed part of them a rank, in whole batches (PGT-I §5.4)."""

    store: Store
    local: bool = False

    def __str__(self) -> str:
        return self.store.name + LOCAL * self.local

    @classmethod
    def of(cls, schedule: Schedule) -> Feeding:
        """What `Schedule.feeding` says. Raises UserError for a store that does not exist: the schedule is of another version."""
        name = schedule.feeding.removesuffix(LOCAL)
        if name not in STORES:
            raise UserError(f"schedule '{schedule.name}': feeding '{schedule.feeding}' is unknown; valid: {', '.join(STORES)}")
        return cls(STORES[name], schedule.feeding.endswith(LOCAL))

    def training(self, windows: Windows, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Windows that are trained on, shuffled every epoch."""
        return WindowAssignment(windows.train, ranks, hyper.batch_size, self.local, seed=hyper.seed, limit=hyper.batches)

    def validation(self, windows: Windows, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Windows that validate, in order of time; none unless asked for."""
        chosen = windows.validation if hyper.validate else range(0)
        return WindowAssignment(chosen, ranks, hyper.batch_size, self.local, shuffled=False, limit=hyper.batches)

    def test(self, windows: Windows, hyper: Hyper, ranks: int) -> WindowAssignment:
        """Windows that test, in order of time."""
        return WindowAssignment(windows.test, ranks, hyper.batch_size, self.local, shuffled=False)
