"""Repeats: durations of rows over several passes, so that they add up to the time of a pass, and how much they vary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from chronoscale.real_exec.execution.passes import Pass
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Schedule

TRIMMED = 1 / 7  # of the passes at either end: one of seven


def counted_passes(totals: Ints) -> NDArray[np.bool_]:
    """Return which of a schedule's measured passes enter its figures, bool [passes]: all but the fastest and the slowest seventh.

    totals: the sum of each pass's rows, ns int64 [passes]. Whole passes are left out, not each row's longest times. Those are skewed: a
    median or trimmed mean of each lies below its mean, and a sum over thousands of rows lacks what every one of them left out. Sums are
    hardly skewed, so that leaving out as many at either end keeps their middle.
    """
    cut = int(len(totals) * TRIMMED)
    counted = np.zeros(len(totals), bool)
    counted[np.argsort(totals, kind="stable")[cut : len(totals) - cut]] = True
    return counted


def row_durations(passes: Sequence[Pass]) -> Ints:
    """Return each row's measured durations, ns int64 [passes, tasks], without the fastest and the slowest passes (`counted_passes`)."""
    durations = np.stack([each.trace.duration_ns for each in passes])
    return np.asarray(durations[counted_passes(durations.sum(1))], np.int64)


def mean_durations(passes: Sequence[Pass]) -> Floats:
    """Return each task's mean measured duration, ns float64 [tasks], without the fastest and the slowest passes (`counted_passes`).

    Their sum is the trimmed mean of the passes.
    """
    return np.asarray(row_durations(passes).mean(0), np.float64)


def row_spread(ns: Ints) -> Floats:
    """Return each row's relative standard deviation over measured passes, float64 [tasks], from durations ns int64 [passes, tasks]; 0 for
    one pass.

    A pass in which everything is slower is drift, not jitter: rows are compared as shares of their pass.
    """
    if len(ns) < 2:
        return np.zeros(ns.shape[1])
    level = ns.sum(1, dtype=np.float64)
    even = ns * (level.mean() / np.maximum(level, 1))[:, None]
    return np.asarray(even.std(0, ddof=1) / np.maximum(ns.mean(0), 1), np.float64)


def rank_sway(items: Iterable[tuple[Schedule, list[Pass]]]) -> float:
    """Return how much a rank's measured iteration varies against the other ranks', beyond the jitter of its rows; 0 for one rank or one
    pass.

    items: schedules with the passes that executed them. It is a relative standard deviation, of which the simulator draws: the root of the
    mean square over all iterations, weighted by their length. A collective's duration begins when its last rank arrives, so that what a
    rank takes before that shows only in the other rows.
    """
    square = weight = 0.0
    for schedule, passes in items:
        ns = row_durations(passes)
        if schedule.ranks < 2 or len(ns) < 2:
            continue
        own = schedule.collective < 0
        place = schedule.rank[own].astype(np.int64) * schedule.iterations + schedule.iteration[own]
        size = schedule.ranks * schedule.iterations
        total = np.stack([np.bincount(place, durations[own], size) for durations in ns]).reshape(
            len(ns), schedule.ranks, schedule.iterations
        )
        mean = total.mean(0)
        off = total - mean
        off -= off.mean(1, keepdims=True)  # what all ranks have alike makes none of them wait
        free = (len(ns) - 1) / len(ns) * (schedule.ranks - 1) / schedule.ranks  # degrees of freedom that the two means took
        rows = np.bincount(place, (row_spread(ns)[own] * ns.mean(0)[own]) ** 2, size).reshape(mean.shape)
        square += float(((off**2).mean(0) / free - rows).sum())
        weight += float((mean**2).sum())
    return float(np.sqrt(max(square, 0.0) / weight)) if weight else 0.0
