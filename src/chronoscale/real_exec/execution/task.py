"""Task: one row of a schedule as the interpreter hands it to a program; plain ints, read once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Lane, Op, Schedule


class Task(NamedTuple):
    """Fields as in `Schedule`; `task` is the row number, `deps` the rows waited for, `hosted` whether a GPU's host does its work: it is
    timed by the host's clock, and nothing of it is on a stream when it has ended."""

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
    """The rows of one rank, in order. Dependencies on other ranks do not occur: they go through collectives."""
    rows = np.flatnonzero(schedule.rank == rank)
    names = ("op", "lane", "iteration", "unit", "step", "layer", "bytes", "hosted")
    columns = zip(rows.tolist(), *(getattr(schedule, name)[rows].tolist() for name in names), strict=True)
    return [
        Task(row, Op(op), Lane(lane), iteration, unit, step, layer, size, tuple(schedule.dependencies(row).tolist()), hosted)
        for row, op, lane, iteration, unit, step, layer, size, hosted in columns
    ]
