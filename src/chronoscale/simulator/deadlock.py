"""Deadlock: the cycle of waiting tasks at which a replay stopped early."""

from __future__ import annotations

import numpy as np

from chronoscale.errors import UserError
from chronoscale.simulator.timeline import Timeline
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

SHOWN = 6  # tasks of a cycle that the message names


def deadlock_error(schedule: Schedule, timeline: Timeline, start: Ints) -> UserError:
    """Return the simulator's error for a schedule whose ranks wait for one another in a cycle; it names the tasks of the cycle.

    start: when segments (runs of tasks of one stream) started (ns), int64 [segments], negative where one never did. Dependencies point to
    earlier rows and streams run in row order, so only collectives that two ranks enter in different orders close a cycle.
    """
    stuck = np.flatnonzero(start < 0)
    streams, first_stuck = np.unique(timeline.stream[stuck], return_index=True)
    # of each stream, the first segment that did not start; waiting streams are held up by one another's heads
    head: dict[int, int] = dict(zip(streams.tolist(), stuck[first_stuck].tolist(), strict=True))

    def unserved(segment: int) -> list[int]:
        waits = [*timeline.awaited[timeline.wait_ptr[segment] : timeline.wait_ptr[segment + 1]], timeline.turn[segment]]
        return [int(other) for other in waits if other >= 0 and start[other] < 0]

    def blocker(segment: int) -> int:
        """Return the first segment that did not start in the stream that holds up `segment`, itself the first such of its own."""
        blockers = unserved(segment)
        if not blockers:
            partners: list[int] = np.flatnonzero(timeline.collective == timeline.collective[segment]).tolist()
            blockers = [partner for partner in partners if head[int(timeline.stream[partner])] != partner or unserved(partner)]
        return head[int(timeline.stream[blockers[0]])]

    path = [int(stuck[0])]
    while (step := blocker(path[-1])) not in path:
        path.append(step)
    cycle = path[path.index(step) :]
    tasks = [_describe(schedule, int(timeline.first[segment])) for segment in cycle if timeline.first[segment] >= 0]
    shown = [*tasks, tasks[0]] if len(tasks) <= SHOWN else [*tasks[:SHOWN], f"{len(tasks) - SHOWN} more"]
    return UserError(f"schedule '{schedule.name}' deadlocks: {' waits for '.join(shown)}")


def _describe(schedule: Schedule, task: int) -> str:
    group = f", collective {schedule.collective[task]}" if schedule.collective[task] >= 0 else ""
    return f"task {task} ({Op(schedule.op[task]).name}@{Lane(schedule.lane[task]).name} of rank {schedule.rank[task]}{group})"
