"""Groups: which ranks take part in each collective of a schedule, and its FIFOs, as other tools want them said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.strategies.schedule import Ints, Lane, Schedule

Streams = Sequence[Sequence[Lane]]  # lanes that share a FIFO, as `Device.streams`


def before(schedule: Schedule, streams: Streams) -> Ints:
    """Of each row the one before it in its FIFO, -1 of the first; int64 [tasks]."""
    of = np.array([next(i for i, lanes in enumerate(streams) if lane in lanes) for lane in Lane])
    fifo = schedule.rank * np.int64(len(streams)) + of[schedule.lane]
    row = np.argsort(fifo, kind="stable")
    found = np.full(len(schedule), -1, np.int64)
    found[row[1:]] = np.where(np.diff(fifo[row]) == 0, row[:-1], -1)
    return found


def members(schedule: Schedule) -> dict[int, Ints]:
    """Rows of each collective, by its id."""
    rows = np.flatnonzero(schedule.collective >= 0)
    order = rows[np.argsort(schedule.collective[rows], kind="stable")]
    numbers, first = np.unique(schedule.collective[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(rows) else {}
