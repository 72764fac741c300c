"""REAL's own model of costs (eq. 16 to 18): against sums by hand, and as what a scheduler places groups by."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real.benefit import compute_benefit
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.greedy import REAL_G, place
from chronoscale.strategies.real.linear_benefit import SnapshotLaw, linear_benefit
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
STATS = EvolvingGraph(400, 2000, snapshots=20, churn=0.1, seed=3).statistics()
LAW = SnapshotLaw(3.0, 0.5, 1000.0)


def work(size: int = 4, stride: int = 1) -> Workload:
    return Workload("w", STATS, model_shape("wd-gcn", 16, 16), Hyper(group_size=size, stride=stride))


def by_hand(size: int, stride: int, ratio: float) -> tuple[list[float], dict[tuple[int, int], float]]:
    """Eq. 16 and 17 term by term: times, and what groups i < j save."""
    full = [3.0 * v + 0.5 * e + 1000.0 for v, e in zip(STATS.nodes.tolist(), STATS.edges.tolist(), strict=True)]
    later = [3.0 * v + 0.5 * e + 1000.0 for v, e in zip(STATS.changed_nodes.tolist(), STATS.changed_edges.tolist(), strict=True)]
    groups = work(size, stride).groups
    times = [full[i * stride] + sum(later[i * stride + k] for k in range(1, size)) for i in range(groups)]
    saved = {}
    for i in range(groups):
        for j in range(i + 1, groups):
            apart = (j - i) * stride
            saved[i, j] = ratio * sum(later[i * stride + k] for k in range(1, size - apart + 1))
    return times, saved


@pytest.mark.parametrize(("size", "stride", "ratio"), [(4, 1, 0.5), (4, 2, 0.25), (3, 3, 1.0), (1, 1, 0.5)])
def test_times_and_savings_are_eq_16_and_17_by_hand(size, stride, ratio):
    benefit = linear_benefit(work(size, stride), COSTS, ratio, LAW)
    times, saved = by_hand(size, stride, ratio)
    assert benefit.times.tolist() == [round(time) for time in times]
    for (i, j), expected in saved.items():
        load = benefit.load(np.array([i]), np.array([j]))[0]
        assert benefit.times[i] + benefit.times[j] - load == int(expected), (i, j)


def test_without_reuse_snapshots_take_their_time_in_full():
    apart = linear_benefit(work(), COSTS, 0.5, LAW, Reuse())
    full = LAW.time(STATS.nodes.astype(float), STATS.edges.astype(float))
    assert apart.times[2] == round(full[2:6].sum()) and not apart.reuse.any()
    assert not linear_benefit(work(), COSTS, 0.5, LAW, Reuse(snapshots=True)).reuse.any()


def test_the_law_is_fitted_to_snapshots_in_full_and_as_further_ones():
    """Its groups take what planners' groups take to within some per cent, of counts that vary; constant ones get no coefficient."""
    law = SnapshotLaw.fit(work(), COSTS)
    ours, exact = linear_benefit(work(), COSTS, 0.5).times, compute_benefit(work(), COSTS).times
    assert ours.mean() == pytest.approx(exact.mean(), rel=0.1)
    assert linear_benefit(work(), COSTS, 0.5, law).times.tolist() == ours.tolist()
    constant = replace(STATS, nodes=STATS.nodes * 0 + 400, changed_nodes=STATS.changed_nodes * 0 + 400)
    assert SnapshotLaw.fit(replace(work(), stats=constant), COSTS).a_node == 0


def test_a_scheduler_places_by_the_estimate_that_it_is_given():
    linear = partial(linear_benefit, ratio=0.5, law=LAW)
    planner = replace(REAL_G, estimate=linear)
    benefit = linear(work(), COSTS)
    placement = planner.place(work(), 3, COSTS)
    assert check(placement, benefit) == check(place(benefit, 3), benefit)
    assert planner.plan(work(), 3, COSTS).planned_ns == round(check(placement, benefit))


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_that_is_no_share_is_refused(ratio):
    with pytest.raises(UserError, match="expected 0 to 1"):
        linear_benefit(work(), COSTS, ratio, LAW)
