"""Pace: when the iterations of an epoch end, and how far a training is that goes on at that pace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """ends: of an epoch's iterations, ns from its begin, int64 [i] with i > 0, none before the one before. Every epoch is alike."""

    ends: Ints

    @classmethod
    def of(cls, schedule: Schedule, trace: Trace) -> Pace:
        """Of the epoch that `trace` is: an iteration has ended when its last row and those of all before have."""
        ends = np.zeros(max(schedule.iterations, 1), np.int64)
        begin = int(trace.start_ns.min()) if len(trace) else 0
        np.maximum.at(ends, np.maximum(schedule.iteration[trace.task], 0), trace.end_ns - begin)
        return cls(np.maximum.accumulate(ends))

    @property
    def iterations(self) -> int:
        return len(self.ends)

    def spent(self, done: int) -> int:
        """What the first `done` iterations of a training take, ns."""
        epochs, rest = divmod(done, len(self.ends))
        return epochs * int(self.ends[-1]) + (int(self.ends[rest - 1]) if rest else 0)

    def place(self, epoch: int, ns: int) -> tuple[int, int]:
        """Where a training is `ns` after an epoch's begin, before its end: iterations done, and ns into the next."""
        done = min(int(np.searchsorted(self.ends, ns, side="right")), len(self.ends) - 1)
        return epoch * len(self.ends) + done, ns - (int(self.ends[done - 1]) if done else 0)
