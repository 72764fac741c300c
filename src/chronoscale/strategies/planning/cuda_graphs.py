"""CUDA graphs: a prediction folded to one entry a graph, so that it compares with a measurement that ran as graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Trace


def serialise_graphs(schedule: Schedule, measured: Trace) -> Schedule:
    """Return the schedule as CUDA graphs ran it, to be replayed and compared with that measurement: rows inside a graph also wait for their
    rank's last optimiser step, since one graph follows another.

    measured: a trace of the schedule with entries `Op.GRAPH`. So nothing of an iteration begins in the one before. Where nothing ran as a
    graph it is the schedule itself.
    """
    inside, steps = _inside(np.arange(len(schedule)), measured), schedule.op == Op.OPTIMIZE
    rows, needs = list[Ints](), list[Ints]()
    for rank in np.unique(schedule.rank[inside]):
        optimizer_rows, waiting = np.flatnonzero(steps & (schedule.rank == rank)), np.flatnonzero(inside & (schedule.rank == rank))
        before = np.searchsorted(optimizer_rows, waiting) - 1
        rows.append(waiting[before >= 0])
        needs.append(optimizer_rows[before[before >= 0]])
    if not rows:
        return schedule
    row, need = np.concatenate(rows), np.concatenate(needs)
    counts = np.diff(schedule.dep_ptr)
    all_rows, all_needs = np.concatenate([np.repeat(np.arange(len(schedule)), counts), row]), np.concatenate([schedule.dep, need])
    order = np.argsort(all_rows, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(all_rows, minlength=len(schedule)))])
    return replace(schedule, dep_ptr=pointers.astype(np.int64), dep=all_needs[order].astype(np.int64))


def fold_graphs(predicted: Trace, measured: Trace) -> Trace:
    """Return a predicted trace in which the rows that ran as one CUDA graph in a measurement are one entry, so that the two compare row by
    row.

    An entry stands where the last of its rows was, and holds the rows before it that are missing in the measurement.
    """
    stands = np.full(len(predicted), -1, np.int64)
    inside, graphs = _inside(predicted.task, measured), measured.op == Op.GRAPH
    for rank in np.unique(measured.rank[graphs]):
        last = np.sort(measured.task[graphs & (measured.rank == rank)])
        rows = np.flatnonzero(inside & (predicted.rank == rank) & (predicted.task <= last[-1]))
        stands[rows] = last[np.searchsorted(last, predicted.task[rows])]
    return predicted.fold(stands)


def _inside(tasks: Ints, measured: Trace) -> NDArray[np.bool_]:
    """Return which tasks are inside a graph of the measurement: they have no entry by themselves."""
    graphs = measured.op == Op.GRAPH
    inside: NDArray[np.bool_] = ~np.isin(tasks, measured.task[~graphs]) & bool(graphs.any())
    return inside
