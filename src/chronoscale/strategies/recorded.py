"""Recorded: costs that are a trace's own durations, so that what was traced once can be replayed on another cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source, Trace


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCosts:
    """Durations of the rows of the one schedule that `trace` is of. Collectives belong to the network, as ever: theirs are not used."""

    trace: Trace

    @property
    def name(self) -> str:
        return f"recorded on {self.trace.device}"

    @property
    def launch_ns(self) -> int:
        """None: what launching took lies between the rows of a trace, and is not replayed."""
        return 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """As `CostModel.predict`. Raises UserError for another schedule's rows."""
        trace = self.trace
        if len(trace) != len(schedule) or (trace.op[rows] != schedule.op[rows]).any() or (trace.rank[rows] != schedule.rank[rows]).any():
            raise UserError(f"costs {self.name}: they are durations of the rows of '{trace.strategy}', and of no other schedule")
        return trace.duration_ns[rows], Source(int(trace.source[rows].max()))

    def occupies(self, schedule: Schedule, rows: Ints) -> tuple[Floats, Floats]:
        """Shares of memory bandwidth and SMs, float64 [rows]: unknown, so that rows slow nothing down."""
        return np.zeros(len(rows)), np.zeros(len(rows))
