"""FIFOs: which rows follow one another in a FIFO, which meet in a collective, and how long after they could each row started."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.strategies.schedule import Ints, Lane, Schedule
from chronoscale.strategies.trace import Trace

Streams = Sequence[Sequence[Lane]]  # lanes that share a FIFO, as `Device.streams`


def previous_in_fifo(schedule: Schedule, streams: Streams) -> Ints:
    """Return for each row of a schedule the row that runs before it in its queue on its rank, int64 [rows]; -1 for the first. By it exports
    and replays of traces know what follows what.

    streams: lanes that share a queue, as `Device.streams`.
    """
    of = np.array([next(i for i, lanes in enumerate(streams) if lane in lanes) for lane in Lane])
    fifo = schedule.rank * np.int64(len(streams)) + of[schedule.lane]
    row = np.argsort(fifo, kind="stable")
    previous = np.full(len(schedule), -1, np.int64)
    previous[row[1:]] = np.where(np.diff(fifo[row]) == 0, row[:-1], -1)
    return previous


def collective_members(schedule: Schedule) -> dict[int, Ints]:
    """Return which rows of a schedule form one collective: its id -> the row numbers of all ranks that take part, int64."""
    rows = np.flatnonzero(schedule.collective >= 0)
    order = rows[np.argsort(schedule.collective[rows], kind="stable")]
    numbers, first = np.unique(schedule.collective[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(rows) else {}


def start_gaps(trace: Trace, schedule: Schedule, prior: Ints) -> Ints:
    """Return how long each row of a measured trace could have started before it did, int64 [rows] ns: time that launching, or the
    interpreter, took. Replays of recordings keep it.

    A row could start once the row before it in its queue (`prior`, int64 [rows], -1: none; see `previous_in_fifo`) and its dependencies had
    ended; in a collective, those of all ranks.
    """
    end = trace.end_ns
    ready = np.where(prior >= 0, end[prior], trace.start_ns.min() if len(trace) else 0)
    np.maximum.at(ready, np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr)), end[schedule.dep])
    for rows in collective_members(schedule).values():
        ready[rows] = ready[rows].max()
    return np.maximum(trace.start_ns - ready, 0)
