"""When plans share rows of recurrences, and what they say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real.benefit import compute_benefit
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.variants import TemporalVariant
from chronoscale.strategies.workload import Hyper, Workload

MACHINE = presets.local_cpu(4, 1e11, Link(1e9, 1e-4))
COSTS = DatasheetCosts(MACHINE.device)
SHARED = [TemporalVariant.LASTING, TemporalVariant.LASTING_FIRST, TemporalVariant.REST, TemporalVariant.REST_FIRST]


@dataclass(frozen=True)
class ByRows:
    """Costs of a number of ns for each row of a step, and for each step that shares rows."""

    each: int
    name = "by rows"
    launch_ns = 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, np.ndarray]:
        shared = np.isin(schedule.variant[rows], SHARED)
        ns = np.where(schedule.op[rows] == Op.TEMPORAL, schedule.rows[rows] + self.each * shared, 1)
        return ns.astype(np.int64), np.zeros(len(rows), bool)


def work(nodes: int = 2_000, churn: float = 0.02, **hyper: object) -> Workload:
    graphs = GrowthGraph.rmat(nodes, 4 * nodes, 20, churn, 1).sequence().without_self_edges()
    return Workload("w", statistics_of(graphs), model_shape("wd-gcn", 16, 16), Hyper(**hyper))  # type: ignore[arg-type]


def shares(schedule: Schedule) -> bool:
    steps = schedule.tasks(Op.TEMPORAL)
    (found,) = {bool(one) for one in np.isin(schedule.variant[steps], SHARED)}  # all rows or none
    return found


@pytest.mark.parametrize(("each", "expected"), [(0, True), (10_000, False)])
def test_rows_are_shared_only_where_that_pays(each: int, expected: bool) -> None:
    workload = work()
    assert shares(strategy("real-g+").plan(workload, 2, ByRows(each))) == expected  # type: ignore[arg-type]
    assert not shares(strategy("real-g+-own").plan(workload, 2, ByRows(each)))  # type: ignore[arg-type]


def test_pairs_save_what_their_rows_say() -> None:
    """A pair's second group takes as long as its rest; nothing else takes time."""
    workload = work(group_size=3)
    benefits, lasting = compute_benefit(workload, ByRows(0), rows=True), workload.snapshots.lasting  # type: ignore[arg-type]
    assert lasting is not None
    first = np.arange(workload.groups - 1)
    stays = lasting.count("weighted", first, 4)
    unshared = benefits.times[first] + benefits.times[first + 1] - benefits.reuse[first, 0]
    lanes = workload.snapshots.num_nodes * 3 * 2 - 3 * stays  # steps of both groups
    assert (abs(unshared - lanes) < 100).all()


def test_shared_rows_take_less_time_when_replayed() -> None:
    """And more memory: the first group's states wait for the second one's gradient pass, beside the products that stay."""
    workload = work(20_000)
    plans = {name: strategy(name).plan(workload, 4, COSTS) for name in ("real-g+", "real-g+-own")}
    traces = {name: replay(plan, MACHINE, COSTS) for name, plan in plans.items()}
    assert shares(plans["real-g+"]) and traces["real-g+"].span_ns < traces["real-g+-own"].span_ns
    assert peaks(plans["real-g+"], traces["real-g+"]).max() > peaks(plans["real-g+-own"], traces["real-g+-own"]).max()
    for plan in plans.values():
        assert plan.alloc.sum() == plan.free.sum()  # all that is taken is given back
        assert plan.planned_ns >= plan.bound_ns > 0
    assert (plans["real-g+"].flops.sum()) < plans["real-g+-own"].flops.sum()


def test_a_larger_graph_that_evolves_alike_shares_as_many() -> None:
    small = work()
    large = replace(small, stats=small.snapshots.scaled(7))
    rows = [np.sort(strategy("real-g+").plan(of, 1, ByRows(0)).rows) for of in (small, large)]  # type: ignore[arg-type]
    assert len(rows[0]) == len(rows[1]) and set(rows[1][rows[1] > 10_000]) <= set(7 * rows[0])
