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
    """Recorded epoch, to be replayed on another cluster: a schedule, a trace with the times of all its rows, and for each row the one that
    ran before it in its queue (`prior`, int64 [rows]; -1: none)."""

    schedule: Schedule
    trace: Trace
    prior: Ints

    @property
    def costs(self) -> RecordedCosts:
        """The cost model by which a simulator replays what was recorded."""
        return RecordedCosts(self.trace, start_gaps(self.trace, self.schedule, self.prior))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCosts:
    """Cost model that gives the rows of one schedule the durations of a recorded `trace` of it, for replaying a recording elsewhere;
    collectives are timed by the network model.

    gap_ns: how long before its recorded start each row could have started, int64 [rows]: time that went into launching, or into the
    interpreter. It belongs to the host, not to the cluster, so that `predict` adds it to the row; `without_gaps` removes it from a replay.
    """

    trace: Trace
    gap_ns: Ints

    @property
    def name(self) -> str:
        return f"recorded on {self.trace.device}"

    @property
    def launch_ns(self) -> int:
        """0: the recorded gaps include the time of launching kernels."""
        return 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """Return the gap before each row plus its recorded duration, int64 [len(rows)] ns, and where the recording's times come from.

        Raises UserError for rows of another schedule than the recorded one.
        """
        trace = self.trace
        if len(trace) != len(schedule) or (trace.op[rows] != schedule.op[rows]).any() or (trace.rank[rows] != schedule.rank[rows]).any():
            raise UserError(f"costs {self.name}: they are durations of the rows of '{trace.strategy}', and of no other schedule")
        return self.gap_ns[rows] + trace.duration_ns[rows], Source(int(trace.source[rows].max()))

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return zeros [len(rows)] twice: how much memory bandwidth and how many SMs the recorded rows took is unknown, so that in a replay
        none slows another down."""
        return np.zeros(len(rows)), np.zeros(len(rows))

    def without_gaps(self, schedule: Schedule, replayed: Trace) -> Trace:
        """Return a replay (a simulated trace) with these costs in which rows start when their own work does, after the recorded gap."""
        return replace(replayed, start_ns=replayed.start_ns + np.where(schedule.collective < 0, self.gap_ns, 0))
