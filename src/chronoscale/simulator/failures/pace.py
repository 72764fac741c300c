"""Pace: when the iterations of an epoch end, and how far a training is that goes on at that pace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """Pace of a simulated training whose epochs are all alike.

    ends: when iterations of an epoch end, ns from its start, int64 [iterations], at least one, ascending.
    """

    ends: Ints

    @classmethod
    def of(cls, schedule: Schedule, trace: Trace) -> Pace:
        """Return the pace at which a training repeats a simulated epoch: when each iteration and all before it have ended."""
        ends = np.zeros(max(schedule.iterations, 1), np.int64)
        begin = int(trace.start_ns.min()) if len(trace) else 0
        np.maximum.at(ends, np.maximum(schedule.iteration[trace.task], 0), trace.end_ns - begin)
        return cls(np.maximum.accumulate(ends))

    @property
    def iterations(self) -> int:
        return len(self.ends)

    def spent(self, done: int) -> int:
        """Return how long the first `done` iterations of a simulated training take, ns, without failures."""
        epochs, rest = divmod(done, len(self.ends))
        return epochs * int(self.ends[-1]) + (int(self.ends[rest - 1]) if rest else 0)

    def place(self, epoch: int, ns: int) -> tuple[int, int]:
        """Return how far a simulated training is `ns` after the start of `epoch`, before its end: iterations done, and ns into the next."""
        done = min(int(np.searchsorted(self.ends, ns, side="right")), len(self.ends) - 1)
        return epoch * len(self.ends) + done, ns - (int(self.ends[done - 1]) if done else 0)
