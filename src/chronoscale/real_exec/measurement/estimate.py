"""Estimate: what repeats of a schedule come to, so that the times of its rows add up to the time of a pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints

TRIMMED = 1 / 7  # of the passes at either end: one of seven


def whole(totals: Ints) -> NDArray[np.bool_]:
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


def times(passes: Sequence[Pass]) -> Ints:
    """Durations in the passes that count (`whole`); ns, int64 [passes that count, tasks]."""
    found = np.stack([one.trace.duration_ns for one in passes])
    return np.asarray(found[whole(found.sum(1))], np.int64)


def means(passes: Sequence[Pass]) -> Floats:
    """Mean duration of every task over the passes that count, ns, float64 [tasks]: together they are the trimmed mean of the passes."""
    return np.asarray(times(passes).mean(0), np.float64)
