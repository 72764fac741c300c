from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_oracle import oracle

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.errors import UserError
from chronoscale.simulator import memory, presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.network import collective_times
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.evaluation.metrics import busy_ns
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.trace import Source
from chronoscale.strategies.workload import Hyper, ModelShape, Workload

CLUSTER = presets.cluster("h200")
COSTS = DatasheetCosts(CLUSTER.device)
STATS = EvolvingGraph(400, 2000, 24, churn=0.05, seed=3).statistics()


def workload(layers: int = 2, **hyper: int) -> Workload:
    return Workload("small", STATS, ModelShape("tgcn", "gcn", "gru", layers, 16, 8, 1, 1000), Hyper(**hyper))


def plan(name: str, ranks: int, load: Workload) -> Schedule:
    placement = deal(load.groups, ranks, 1 if name == "psg" else 2)
    return lower(name, load, placement, Reuse(name != "psg", name == "real-reuse"), COSTS)


def h2d_bytes(schedule: Schedule) -> int:
    return int(schedule.bytes[schedule.op == Op.H2D].sum())


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 2))
def test_dealing_places_every_group_once_and_pairs_neighbours(groups, ranks, each):
    placement = deal(groups, ranks, each)
    seats = placement.site * 2 + placement.slot
    assert len(placement.slot) == groups == len(set(seats.tolist()))
    assert placement.iterations == -(-groups // (ranks * each))
    assert (placement.first() == np.arange(groups) - placement.slot).all()
    for group, before in enumerate(placement.previous().tolist()):
        assert before == max((g for g in range(groups) if placement.rank[g] == placement.rank[group] and g < group), default=-1)
    assert (placement.in_time_order().slot == placement.slot).all()


def test_a_pair_in_reverse_is_put_in_time_order():
    backwards = Placement(1, np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([1, 0]))
    assert backwards.in_time_order().slot.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rank", "iteration", "slot", "message"),
    [
        ([2], [0], [0], "out of range"),
        ([0], [0], [2], "more than 2 groups"),
        ([0, 0], [0, 0], [0, 0], "share one rank"),
        ([0], [0], [1], "slot 0 is empty"),
    ],
)
def test_an_impossible_placement(rank, iteration, slot, message):
    with pytest.raises(ValueError, match=message):
        Placement(2, np.array(rank), np.array(iteration), np.array(slot))


def test_no_gpus():
    with pytest.raises(UserError, match="at least one GPU is needed, got 0"):
        deal(3, 0)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 3])
def test_psg_has_the_rows_of_its_definition(layers, ranks):
    load = workload(layers, group_size=3)
    schedule = plan("psg", ranks, load)
    iterations = -(-load.groups // ranks)
    group = 3 * (4 + 3 * (layers - 1)) + 1  # H2D, AGGREGATE, TRANSFORM, TEMPORAL; no H2D above layer 1; BACKWARD
    synchronisation = iterations * ranks * (2 if ranks > 1 else 1)  # ALLREDUCE, OPTIMIZE
    assert len(schedule) == load.groups * group + synchronisation


def test_psg_overlaps_nothing():
    trace = replay(plan("psg", 1, workload()), CLUSTER, DatasheetCosts(CLUSTER.device, launch="graph"))
    assert trace.duration_ns.sum() == trace.span_ns == busy_ns(trace)[0]


def lanes(schedule: Schedule) -> dict[Op, set[Lane]]:
    return {Op(op): {Lane(lane) for lane in schedule.lane[schedule.op == op]} for op in np.unique(schedule.op)}


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_reuse_works_in_three_lanes_and_nothing_else_does(model, layers):
    """REAL's triple stream: transfers, aggregations, and beside them what follows: transformation and recurrence."""
    load = Workload("w", STATS, model_shape(model, 16, 8, layers), Hyper())
    moved, summed, follows = {Op.H2D}, {Op.AGGREGATE, Op.INCREMENT, Op.RECONSTRUCT}, {Op.TRANSFORM, Op.TEMPORAL}
    ends = {Op.BACKWARD, Op.OPTIMIZE}
    for name in ("real-type1", "real-reuse"):
        lane_ops = lanes(plan(name, 1, load))
        assert moved | follows <= set(lane_ops) <= moved | summed | follows | ends
        assert {op: {Lane.H2D} if op in moved else {Lane.COMPUTE2} if op in follows else {Lane.COMPUTE} for op in lane_ops} == lane_ops
    lane_ops = lanes(plan("psg", 1, load))
    assert {op: {Lane.H2D} if op in moved else {Lane.COMPUTE} for op in lane_ops} == lane_ops


class Even:
    """Every row takes as long."""

    name, launch_ns = "even", 0

    def predict(self, schedule, rows):
        return np.full(len(rows), 10), Source.SPECIFIED

    def occupies(self, schedule, rows, ns):
        return np.zeros(len(rows)), np.zeros(len(rows))


def test_the_three_lanes_of_reuse_run_at_once():
    """There are moments at which a snapshot is moved, another aggregated and a third transformed."""
    schedule = lower("type 1", (load := workload()), deal(load.groups, 1), Reuse(snapshots=True), Even())
    trace = replay(schedule, CLUSTER, Even())
    started = [set(trace.start_ns[schedule.lane == lane].tolist()) for lane in (Lane.H2D, Lane.COMPUTE, Lane.COMPUTE2)]
    assert len(set.intersection(*started)) >= load.groups


def test_shared_snapshots_have_no_rows_of_their_own():
    load = workload(layers=1, group_size=4, horizon=17)  # four groups: two pairs of one rank
    schedule = plan("real-reuse", 1, load)
    first = np.isin(schedule.op, [Op.AGGREGATE, Op.INCREMENT])
    assert load.groups == 4 and first.sum() == schedule.tasks(Op.H2D).size == 2 * (4 + 1)
    assert schedule.tasks(Op.TEMPORAL).size == 4 * 4


@pytest.mark.parametrize("name", ["psg", "real-type1", "real-reuse"])
@pytest.mark.parametrize("ranks", [1, 4, 32])
def test_memory_taken_is_given_back(name, ranks):
    load = workload()
    schedule = plan(name, ranks, load)
    taken, given_back = (np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free))
    assert (taken == given_back).all()
    trace = replay(schedule, CLUSTER, COSTS)
    peak = memory.peaks(schedule, trace)
    assert (peak > schedule.resident).sum() == min(ranks, len(np.unique(schedule.rank[schedule.alloc > 0])))
    memory.check(schedule, trace, CLUSTER)


def test_each_kind_of_reuse_moves_less():
    load = workload()
    psg, type1, type2 = (h2d_bytes(plan(name, 4, load)) for name in ("psg", "real-type1", "real-reuse"))
    assert psg > type1 > type2


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["psg", "real-type1", "real-reuse"])
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_real_schedules_replay_exactly(name, ranks):
    schedule = plan(name, ranks, workload())
    ns, _ = durations(COSTS, schedule)
    rows, times = collective_times.times(schedule, CLUSTER)
    ns[rows] = times
    trace = replay(schedule, replace(CLUSTER, contention=False), COSTS)
    assert (trace.start_ns.tolist(), trace.end_ns.tolist()) == oracle(schedule, CLUSTER, ns, COSTS.launch_ns)


@pytest.mark.parametrize("ranks", [1, 2, 31, 256, 1024])
def test_any_number_of_ranks(ranks):
    cluster = presets.scaled(CLUSTER, ranks)
    for name in ("psg", "real-reuse"):
        schedule = plan(name, ranks, workload())
        trace = replay(schedule, cluster, COSTS)
        assert len(trace) == len(schedule) and trace.span_ns > 0
