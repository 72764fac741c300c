"""Task: one row of a schedule, as programs receive it: plain Python numbers, read once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Lane, Op, Schedule


class Task(NamedTuple):
    """A row of a schedule as a rank's program receives it, fields as in `Schedule`.

    task: its number; deps: the rows that it waits for; bytes: what it moves. hosted: on a GPU, the host does its work; it is timed by the
    host's clock, and has nothing left on a stream when it returns.
    """

    task: int
    op: Op
    lane: Lane
    iteration: int
    unit: int
    step: int
    layer: int
    bytes: int
    deps: tuple[int, ...]
    hosted: bool = False


def tasks_of(schedule: Schedule, rank: int) -> list[Task]:
    """Return the rows of a schedule that one rank executes, in order.

    None depends on a row of another rank: ranks wait for each other in collectives.
    """
    rows = np.flatnonzero(schedule.rank == rank)
    names = ("op", "lane", "iteration", "unit", "step", "layer", "bytes", "hosted")
    columns = zip(rows.tolist(), *(getattr(schedule, name)[rows].tolist() for name in names), strict=True)
    return [
        Task(row, Op(op), Lane(lane), iteration, unit, step, layer, size, tuple(schedule.dependencies(row).tolist()), hosted)
        for row, op, lane, iteration, unit, step, layer, size, hosted in columns
    ]
