"""Cost requests: what plans ask of costs, curve by curve, and that those which ask nothing are made without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.strategies.costing.curves import Curve, curves
from chronoscale.strategies.costing.request import CostRequests, CostsNeeded, UnmeasuredCosts, descriptor_ranges
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.variants import AggregateVariant, Form, TemporalVariant, TransformVariant
from chronoscale.strategies.workload import Hyper, Workload

GRAPHS = GrowthGraph.rmat(60, 300, 12, 0.05, 3).sequence().without_self_edges()


def work(model: str = "t-gcn", layers: int = 1) -> Workload:
    return Workload("w", statistics_of(GRAPHS), model_shape(model, 8, 8, layers), Hyper(group_size=3))


@pytest.mark.parametrize(("name", "asks"), [("psg", False), ("blad", False), ("esdg", False), ("real-g+", True), ("real-l", True)])
def test_a_plan_that_needs_no_costs_is_made_without(name: str, asks: bool) -> None:
    planner = strategy(name)
    if asks:
        with pytest.raises(CostsNeeded):
            planner.plan(work(), 2, UnmeasuredCosts())
        with pytest.raises(CostsNeeded):
            UnmeasuredCosts().launch_ns  # noqa: B018 (asked)
    else:
        made, expected = planner.plan(work(), 2, UnmeasuredCosts()), planner.plan(work(), 2, UNUSED)
        assert (made.op == expected.op).all() and (made.bytes == expected.bytes).all()


@pytest.mark.parametrize("name", ["real-type1", "real-g+"])
def test_what_a_plan_asks_is_remembered(name: str) -> None:
    """All forms of all snapshots, and as a brute force finds them."""
    requests = CostRequests(UNUSED)
    schedule = strategy(name).plan(work(), 1, requests)
    assert {curve.op for curve in requests.ranges} >= {"H2D", "AGGREGATE", "INCREMENT", "TRANSFORM"}
    assert {curve.variant for curve in requests.ranges if curve.op == "H2D"} == {*Form}
    requests = CostRequests(UNUSED)
    requests.note(schedule)
    assert requests.ranges == descriptor_ranges(schedule)
    for curve, ranges in descriptor_ranges(schedule).items():
        own = (schedule.op == Op[curve.op]) & (schedule.width == curve.width) & (schedule.variant == curve.variant)
        assert ranges["bytes"] == (schedule.bytes[own].min(), schedule.bytes[own].max())


def test_a_sketch_asks_what_the_plan_would() -> None:
    """REAL-L's is made without a solver."""
    mismatches = []
    for make in (strategy("real-l").sketch, strategy("real-g+-own").plan):
        requests = CostRequests(UNUSED)
        make(work(), 2, requests)
        mismatches.append(requests.ranges)
    assert mismatches[0] == mismatches[1]
    assert strategy("real-l").sketch(work(), 2, UNUSED).name == "real-l"


def test_implementations_of_a_plan_are_told_apart() -> None:
    """After an increment the transformed rows go into a copy, and sums that increments go on from are kept."""
    calm = statistics_of(GrowthGraph.rmat(400, 8000, 12, 0.002, 3).sequence().without_self_edges())
    wide = replace(work(layers=2), stats=calm, model=model_shape("t-gcn", 64, 64, 2))  # maps pay: few changes, sums that are dear
    plain, reusing = (strategy(name).plan(wide, 1, UNUSED) for name in ("psg", "real-type1"))

    def variants(schedule: Schedule, op: Op, layer: int) -> set[int]:
        return set(schedule.variant[(schedule.op == op) & (schedule.layer == layer)].tolist())

    assert (reusing.op == Op.INCREMENT).any()
    assert variants(plain, Op.AGGREGATE, 0) == {AggregateVariant.ALONE} and variants(reusing, Op.AGGREGATE, 0) == {AggregateVariant.TWICE}
    assert variants(plain, Op.AGGREGATE, 1) == variants(reusing, Op.AGGREGATE, 1) == {AggregateVariant.TRACKED}
    assert variants(plain, Op.TRANSFORM, 0) == {TransformVariant.WHOLE}
    after = [np.isin(Op.INCREMENT, reusing.op[reusing.dependencies(row)]) for row in reusing.tasks(Op.TRANSFORM)]
    assert (reusing.variant[reusing.tasks(Op.TRANSFORM)] == np.where(after, TransformVariant.INTO, TransformVariant.WHOLE)).all()
    steps = plain.tasks(Op.TEMPORAL)
    assert (plain.variant[steps] == np.where(plain.step[steps] == 0, TemporalVariant.FIRST, TemporalVariant.ON)).all()


def test_curves_are_every_row_once() -> None:
    schedule = strategy("real-g+").plan(work("gat-lstm", 2), 2, UNUSED)
    rows = np.flatnonzero(schedule.rank == 1)
    items = list(curves(schedule, rows))
    assert sorted(np.concatenate([own for _, own in items]).tolist()) == list(range(len(rows)))
    assert len({curve for curve, _ in items}) == len(items)
    for curve, own in items:
        mine = rows[own]
        assert {(Op(op).name, w, v) for op, w, v in zip(schedule.op[mine], schedule.width[mine], schedule.variant[mine], strict=True)} == {
            (curve.op, curve.width, curve.variant)
        }
    assert list(curves(schedule, np.zeros(0, np.int64))) == []
    assert str(Curve("GATHER", 8, "HOST", 2)) == "GATHER (implementation 2) in lane HOST at width 8"
