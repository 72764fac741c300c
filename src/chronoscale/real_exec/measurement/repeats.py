"""Estimate: what repeats of a schedule come to, so that the times of its rows add up to the time of a pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from chronoscale.real_exec.execution.passes import Pass
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Schedule

TRIMMED = 1 / 7  # of the passes at either end: one of seven


def counted_passes(totals: Ints) -> NDArray[np.bool_]:
    """Which passes count, bool [passes], given what their rows take together (ns, int64 [passes]): all but the fastest and the slowest
    seventh.

    Whole passes are left out, not a row's own longest times. Those are skewed: a median or a trimmed mean of each lies below its mean, and
    a sum of some thousand rows holds what every one of them left out. Totals are hardly skewed, so that leaving out as many at either end
    keeps their middle.
    """
    cut = int(len(totals) * TRIMMED)
    kept = np.zeros(len(totals), bool)
    kept[np.argsort(totals, kind="stable")[cut : len(totals) - cut]] = True
    return kept


def row_durations(passes: Sequence[Pass]) -> Ints:
    """Durations in the passes that count (`whole`); ns, int64 [passes that count, tasks]."""
    found = np.stack([one.trace.duration_ns for one in passes])
    return np.asarray(found[counted_passes(found.sum(1))], np.int64)


def mean_durations(passes: Sequence[Pass]) -> Floats:
    """Mean duration of every task over the passes that count, ns, float64 [tasks]: together they are the trimmed mean of the passes."""
    return np.asarray(row_durations(passes).mean(0), np.float64)


def row_spread(ns: Ints) -> Floats:
    """Standard deviation of each row over repeats, relative to its mean, float64 [tasks], given ns int64 [passes, tasks].

    A repeat in which everything is slower is drift, not jitter: rows are compared as shares of their repeat. 0 for one repeat.
    """
    if len(ns) < 2:
        return np.zeros(ns.shape[1])
    level = ns.sum(1, dtype=np.float64)
    even = ns * (level.mean() / np.maximum(level, 1))[:, None]
    return np.asarray(even.std(0, ddof=1) / np.maximum(ns.mean(0), 1), np.float64)


def rank_sway(items: Iterable[tuple[Schedule, list[Pass]]]) -> float:
    """Relative standard deviation of what a rank takes for an iteration from what the others take for theirs, beyond what its rows' own
    jitter adds up to; 0 for one rank or one repeat. The root of the mean square over all iterations, each by its length.

    Durations of collectives begin when their last rank arrives, so that what a rank takes before is told by the other rows alone.
    """
    square = weight = 0.0
    for schedule, passes in items:
        ns = row_durations(passes)
        if schedule.ranks < 2 or len(ns) < 2:
            continue
        own = schedule.collective < 0
        place = schedule.rank[own].astype(np.int64) * schedule.iterations + schedule.iteration[own]
        size = schedule.ranks * schedule.iterations
        total = np.stack([np.bincount(place, one[own], size) for one in ns]).reshape(len(ns), schedule.ranks, schedule.iterations)
        mean = total.mean(0)
        off = total - mean
        off -= off.mean(1, keepdims=True)  # what all ranks have alike makes none of them wait
        free = (len(ns) - 1) / len(ns) * (schedule.ranks - 1) / schedule.ranks  # degrees of freedom that the two means took
        rows = np.bincount(place, (row_spread(ns)[own] * ns.mean(0)[own]) ** 2, size).reshape(mean.shape)
        square += float(((off**2).mean(0) / free - rows).sum())
        weight += float((mean**2).sum())
    return float(np.sqrt(max(square, 0.0) / weight)) if weight else 0.0
