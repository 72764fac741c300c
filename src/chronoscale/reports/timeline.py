"""Timeline: one iteration of a trace, as a reader looks at it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import TRACE_COLUMNS, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Timeline(Trace):
    """Part of a trace that is one iteration, as a report draws it; times in ns from the first start in it.

    Iterations overlap (prefetches), so tasks of others that ran at the time are there too, cut to it; `own` is false for them. The rows
    make no schedule: dependencies on the iteration before have no place in it.
    """

    iteration: int
    own: NDArray[np.bool_]

    def extremes(self, count: int) -> Ints:
        """Return which ranks a report draws: all, or else the `count` most and least loaded ones, half each; their numbers, ascending."""
        ranks, place = np.unique(self.rank, return_inverse=True)
        if len(ranks) <= count:
            return ranks.astype(np.int64)
        busy = np.bincount(place, weights=(self.end_ns - self.start_ns) * self.own)
        order = np.argsort(busy, kind="stable")
        return np.sort(ranks[np.concatenate([order[: count // 2], order[len(order) - (count - count // 2) :]])]).astype(np.int64)


def iteration_timeline(trace: Trace, schedule: Schedule, iteration: int | None = None) -> Timeline:
    """Return the tasks of one iteration of a trace, for a report's timeline; by default the middle one, where pipelines are full.

    Raises ValueError when the trace is of another schedule, UserError for an iteration that did not run.
    """
    if len(trace) and int(trace.task.max()) >= len(schedule):
        raise ValueError(f"timeline: the trace of '{trace.strategy}' is not of schedule '{schedule.name}'")
    ran = schedule.iteration[trace.task]
    if iteration is None:
        iteration = int(np.median(np.unique(ran)).item()) if len(ran) else 0
    rows = np.flatnonzero(ran == iteration)
    if not len(rows):
        expected = f"0..{schedule.iterations - 1}" if len(schedule) else "none"
        raise UserError(f"'{trace.strategy}': no iteration {iteration} in the trace; expected {expected}")
    first, last = trace.start_ns[rows].min(), trace.end_ns[rows].max()
    own = ran == iteration
    rows = np.flatnonzero(own | ((trace.start_ns < last) & (trace.end_ns > first)))
    columns = {name: getattr(trace, name)[rows] for name in TRACE_COLUMNS}
    for name in ("start_ns", "end_ns"):
        columns[name] = np.clip(columns[name], first, last) - first
    return Timeline(trace.strategy, trace.ranks, trace.device, **columns, iteration=iteration, own=own[rows])
