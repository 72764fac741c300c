"""Schedules of REAL's groups by eq. 10 alone: when placing them by a scheduler beats consecutive pairs, which need none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from chronoscale.harness.study.evaluation import testbed
from chronoscale.harness.study.findings import NAN
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.experiments import experiment_of, workload_of
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts, Floats
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.linear_benefit import SnapshotLaw, linear_benefit
from chronoscale.strategies.real.scheduled import ScheduledStrategy
from chronoscale.strategies.real.seats import mates, seats
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.strategy import GroupStrategy

UNSCHEDULED = "real-reuse"  # consecutive pairs, dealt in turn
MEAN_NS = 1e7  # of a drawn group


def drawn_groups(groups: int, variation: float, correlation: float, share: float, seed: int, near: int = 3) -> Benefit:
    """Draw times of snapshot groups, and what pairs of them save, for a study of REAL's schedulers; whole ns.

    Times are log-normal with a mean of 10 ms and a coefficient of variation (standard deviation over mean) of about `variation`, and follow
    each other with a `correlation` of 0 to below 1: near 1 they drift, as groups do that a snapshot later begin. Groups k apart, up to
    `near`, save `share` (near + 1 - k) / near of the shorter one's time: that of snapshots they share. seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    steps, drift = rng.standard_normal(groups), np.empty(groups)
    drift[0] = steps[0]
    for i in range(1, groups):
        drift[i] = correlation * drift[i - 1] + np.sqrt(1 - correlation**2) * steps[i]
    spread = np.std(drift)
    scaled = (drift - drift.mean()) / spread if spread > 0 else drift * 0
    weight = np.exp(np.sqrt(np.log1p(variation**2)) * scaled)
    times = np.round(MEAN_NS * weight / weight.mean())
    reuse = np.zeros((groups, near))
    for k in range(1, min(near, groups - 1) + 1):
        reuse[: groups - k, k - 1] = np.round(share * (near + 1 - k) / near * np.minimum(times[:-k], times[k:]))
    return Benefit(times, reuse)


def variation(times: Floats) -> float:
    """Return the coefficient of variation of groups' times: standard deviation over mean, for a study of REAL's schedulers."""
    return float(times.std() / times.mean())


def correlation(times: Floats) -> float:
    """Return how groups' times follow each other, their autocorrelation at distance 1, for a study of REAL's schedulers; 0 for equal
    ones."""
    if len(times) < 2 or times.std() == 0:
        return 0.0
    scaled = (times - times.mean()) / times.std()
    return float(np.mean(scaled[1:] * scaled[:-1]))


def saved_share(benefits: Benefit) -> float:
    """Return what share of the shorter one's time two consecutive groups save on one GPU, in the mean, for a study of REAL's schedulers."""
    shorter = np.minimum(benefits.times[:-1], benefits.times[1:])
    return float(np.mean(benefits.reuse[:-1, 0] / shorter)) if len(shorter) else 0.0


def makespans(benefits: Benefit, gpus: int, names: Iterable[str]) -> dict[str, float]:
    """Return the makespan of each scheduler's placement by REAL's eq. 10, ns, by name, and that of consecutive pairs.

    benefits: times of groups and what pairs save. names: of strategies that place groups by these. Raises TypeError for another.
    """
    spans = {}
    for name in dict.fromkeys((UNSCHEDULED, *names)):
        planner = strategy(name)
        if not isinstance(planner, ScheduledStrategy):
            raise TypeError(f"{name} places groups without times: it has no `seated`")
        spans[name] = check(planner.seated(benefits, gpus), benefits)
    return spans


def _gains(benefits: Benefit, gpus: int, names: Iterable[str]) -> dict[str, Any]:
    """How many times as fast as consecutive pairs each scheduler is, and what of the groups that may depend on."""
    spans = makespans(benefits, gpus, names)
    measures = {"variation": variation(benefits.times), "correlation": correlation(benefits.times), "share": saved_share(benefits)}
    gains = {name: spans[UNSCHEDULED] / span for name, span in spans.items() if name != UNSCHEDULED}
    return {"gains": gains, "each": len(benefits.times) / gpus, "measured": measures}


def drawn_gains(point: StudyPoint) -> dict[str, Any]:
    """Draw groups and return how many times as fast as consecutive pairs schedulers place them: a point of REAL's Study 1.

    `gains`: by name; `each`: groups a GPU; `measured`: `variation`, `correlation` and saved `share` of what was drawn. Settings: each
    (groups a GPU), spread (coefficient of variation), drift (correlation), share, seed, strategies.
    """
    groups = int(point.setting("each") * point.gpus)
    drawn = drawn_groups(groups, *(point.setting(name) for name in ("spread", "drift", "share", "seed")))
    return _gains(drawn, point.gpus, point.setting("strategies"))


def planned_gains(point: StudyPoint) -> dict[str, Any]:
    """Return how many times as fast as consecutive pairs schedulers place the groups of a paper's data set: a point of REAL's Study 1.

    As `drawn_gains`, of the times and savings that planners see of the point's workload, or its experiment's. Setting: strategies.
    """
    bed = testbed(point)
    inputs = bed.workload(point), bed.costs(point, bed.cluster(point))
    return _gains(compute_benefit(*inputs), point.gpus, point.setting("strategies"))


@cache
def _law(experiment: str) -> SnapshotLaw:
    """Eq. 16 fitted to the datasheet's times of an experiment's snapshots. experiment: its keys, as JSON."""
    return SnapshotLaw.fit(workload_of(experiment), DatasheetCosts(presets.cluster(experiment_of(experiment).cluster).device))


def linear_epoch(point: StudyPoint) -> dict[str, float]:
    """Place groups and time the epoch by REAL's eq. 16 to 18 and 10, as its Appendix G simulates: a point of Figure 15 on its own terms.

    `epoch_s`: the makespan. `imbalance`: work of the busiest GPU over that of the least busy one. Settings: experiment; ratio, eq. 17's
    RATIO. Eq. 16's coefficients are fitted to the datasheet's times of the workload's snapshots.
    """
    experiment, planner = str(point.setting("experiment")), strategy(point.strategy)
    work, costs = workload_of(experiment), DatasheetCosts(presets.cluster(experiment_of(experiment).cluster).device)
    estimate = partial(linear_benefit, ratio=float(point.setting("ratio")), law=_law(experiment))
    if isinstance(planner, ScheduledStrategy):
        planner = replace(planner, estimate=estimate)
    assert isinstance(planner, GroupStrategy)
    placement, benefits = planner.place(work, point.gpus, costs), estimate(work, costs, reuse=planner.reuse)
    partner = mates(placement)
    first, _, load = seats(benefits, partner)
    busy = np.bincount(placement.rank[first], load, point.gpus)
    return {"epoch_s": check(placement, benefits) / 1e9, "imbalance": float(busy.max() / busy.min()) if busy.min() > 0 else NAN}


def crossing(gains: Mapping[float, float]) -> float:
    """Return the least spread from which on a scheduler is at least as fast as consecutive pairs, for a row of REAL's Study 1; NaN for
    none.

    gains: spread -> how many times as fast as pairs it is.
    """
    least = NAN
    for spread in sorted(gains, reverse=True):
        if gains[spread] < 1:
            break
        least = spread
    return least
