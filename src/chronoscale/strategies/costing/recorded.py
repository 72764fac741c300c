"""RecordedCosts: costs that replay a recorded trace, for instance on another cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.evaluation.fifos import start_gaps
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A schedule, a trace of all its rows, and for each row the one before it in its FIFO (-1: none), int64 [tasks]."""

    schedule: Schedule
    trace: Trace
    prior: Ints

    @property
    def costs(self) -> RecordedCosts:
        """Costs that replay what was recorded."""
        return RecordedCosts(self.trace, start_gaps(self.trace, self.schedule, self.prior))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCosts:
    """Durations of the rows of the one schedule that `trace` was recorded of; collectives are timed by the network model.

    gap_ns: how long each row could have started before it did, int64 [tasks]: launching, or the interpreter. It belongs to the host, not to
    the cluster, and is predicted as a part of the row; `without_gaps` removes it from a replay.
    """

    trace: Trace
    gap_ns: Ints

    @property
    def name(self) -> str:
        return f"recorded on {self.trace.device}"

    @property
    def launch_ns(self) -> int:
        """0: the gaps include launching."""
        return 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """Return gap plus recorded duration of each row, ns. Raises UserError for another schedule's rows."""
        trace = self.trace
        if len(trace) != len(schedule) or (trace.op[rows] != schedule.op[rows]).any() or (trace.rank[rows] != schedule.rank[rows]).any():
            raise UserError(f"costs {self.name}: they are durations of the rows of '{trace.strategy}', and of no other schedule")
        return self.gap_ns[rows] + trace.duration_ns[rows], Source(int(trace.source[rows].max()))

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return zeros: what share of the device recorded rows took is unknown, so that none slows another down."""
        return np.zeros(len(rows)), np.zeros(len(rows))

    def without_gaps(self, schedule: Schedule, replayed: Trace) -> Trace:
        """Return a replay with these costs in which rows start when their work does."""
        return replace(replayed, start_ns=replayed.start_ns + np.where(schedule.collective < 0, self.gap_ns, 0))
