"""Passes: what one measured repetition of a schedule came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """Result of one pass, a real execution of a schedule from its first row to its last: trace, and the loss of every iteration, float64
    [iterations].

    scores: of validation at its end, by key; empty where nothing validates. counts: those of `EpochResult`. launched: how rows were
    launched, where CUDA graphs were requested; the trace then has one row a graph.
    """

    trace: Trace
    losses: Floats
    scores: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    launched: LaunchSummary | None = None


def medians(passes: Sequence[Pass]) -> Ints:
    """Return the median measured duration of every task over the passes of one schedule, ns, int64 [tasks]; outliers beyond 1.5
    interquartile ranges are left out.
    """
    times = np.stack([p.trace.duration_ns for p in passes]).astype(np.float64)
    low, high = np.quantile(times, [0.25, 0.75], axis=0)
    reach = 1.5 * (high - low)
    inliers = np.where((times >= low - reach) & (times <= high + reach), times, np.nan)
    middle: Floats = np.nanmedian(inliers, axis=0)
    return np.rint(middle).astype(np.int64)
