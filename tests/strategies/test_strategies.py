"""Planners: placements, benefits and rows, on small sequences that can be counted by hand."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real.benefit import compute_benefit
from chronoscale.strategies.real.greedy import place
from chronoscale.strategies.registry import STRATEGIES, of, strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

# Whole groups on a rank; the others: tests/strategies/test_baselines_plans.py.
GROUPED = sorted(name for name, planner in of("snapshots").items() if planner.kind == "groups")
COSTS = DatasheetCosts(presets.cluster("h200").device)
STATS = EvolvingGraph(400, 2000, snapshots=60, churn=0.05, seed=3).statistics()


def make(layers: int = 1, **hyper: int) -> Workload:
    return Workload("w", STATS, model_shape("wd-gcn", 16, 16, layers), Hyper(**hyper))


@pytest.mark.sample(14)
@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("ranks", [1, 2, 3, 64, 1024])
def test_every_group_trains_once(name, ranks):
    work = make()
    schedule = strategy(name).plan(work, ranks, COSTS)
    units = schedule.unit[schedule.tasks(Op.BACKWARD)]
    assert sorted(units) == list(range(work.groups))
    assert schedule.alloc.sum() == schedule.free.sum()
    reduced = schedule.tasks(Op.ALLREDUCE)
    assert len(reduced) == (schedule.iterations * ranks if ranks > 1 else 0)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("layers", [1, 2])
def test_every_transformed_row_gets_its_gradient_once(name, layers):
    work = make(layers)
    schedule = strategy(name).plan(work, 2, COSTS)
    forward = schedule.rows[(schedule.op == Op.TRANSFORM) & (schedule.layer == 0)].sum()
    backward = schedule.rows[schedule.op == Op.BACKWARD].sum() - work.groups * work.hyper.group_size * STATS.num_nodes
    assert forward == backward


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_shared_snapshots_have_no_layer_one_rows(layers):
    work = make(layers)
    schedule = strategy("real-reuse").plan(work, 1, COSTS)
    first_layer = (schedule.layer == 0) & (schedule.unit == 1)  # group 1 starts one snapshot after group 0 and shares three
    assert [Op(op) for op in schedule.op[first_layer]].count(Op.H2D) == 1
    assert [Op(op) for op in schedule.op[first_layer]].count(Op.TRANSFORM) == 1
    assert [Op(op) for op in schedule.op[first_layer]].count(Op.TEMPORAL) == 4
    upper = (schedule.layer == 1) & (schedule.unit == 1)
    assert [Op(op) for op in schedule.op[upper]].count(Op.AGGREGATE) == (4 if layers > 1 else 0)


def test_forms_are_the_cheaper_ones():
    work = make()
    schedule = strategy("real-type1").plan(work, 1, COSTS)
    full = schedule.bytes[(schedule.op == Op.H2D) & (schedule.step == 0)]
    others = schedule.bytes[(schedule.op == Op.H2D) & (schedule.step > 0)]
    assert others.mean() < full.mean() / 2
    stats = replace(STATS, touched_rows=np.full(60, STATS.num_nodes), effective_edges=STATS.effective_edges * 0 + 10**6)
    churned = Workload("w", stats, work.model, work.hyper)  # every change touches all: difference maps never pay
    assert not len(strategy("real-type1").plan(churned, 1, COSTS).tasks(Op.INCREMENT))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_benefit_is_what_the_simulator_saves(stride):
    """R of eq. 9 against a replay: the pair's own time on one GPU, less synchronisation, equals t_i + t_j - R."""
    work = make(stride=stride)
    benefit = compute_benefit(work, COSTS)
    near = 1
    placement = deal(work.groups, 1, 2)
    schedule = lower("pairs", work, placement, Reuse(snapshots=True, groups=True), COSTS).head(1)
    trace = replay(schedule, presets.cluster("h200"), COSTS)
    backward = schedule.tasks(Op.BACKWARD)[-1]
    expected = benefit.times[0] + benefit.times[1] - benefit.reuse[0, near - 1]
    assert trace.end_ns[backward] == expected
    assert benefit.load(np.array([0]), np.array([1]))[0] == expected
    assert benefit.load(np.array([0]), np.array([-1]))[0] == benefit.times[0]
    assert benefit.load(np.array([0]), np.array([15]))[0] == benefit.times[0] + benefit.times[15]


def test_benefits_are_remembered_of_the_same_work_and_costs_alone():
    """Half the bandwidth: no group is faster, and the sum is longer; another workload has another number of groups."""
    work, slower = make(), DatasheetCosts(replace(COSTS.device, memory_bandwidth=COSTS.device.memory_bandwidth / 2))
    first = compute_benefit(work, COSTS)
    assert compute_benefit(work, COSTS) is first
    assert compute_benefit(work, slower).times.sum() > first.times.sum()
    assert len(compute_benefit(make(stride=2), slower).times) == make(stride=2).groups != work.groups
    assert np.array_equal(compute_benefit(work, COSTS).times, first.times)


def test_thinned_targets_keep_those_that_share():
    """One GPU: every target wastes nothing and reuse decides; thinning the targets must not lose the neighbours that have any."""
    benefit = compute_benefit(make(), COSTS)
    exact = place(benefit, 1, "reuse")
    thinned = place(benefit, 1, "reuse", targets=2)
    assert (thinned.iteration == exact.iteration).all() and (exact.slot == 1).sum() >= 0.9 * (len(benefit.times) // 2)


def test_as_printed_one_gpu_trains_every_group_alone():
    """Every target wastes nothing there, and line 9's "<" keeps the first: the longest group with the zero group."""
    assert not place(compute_benefit(make(), COSTS), 1).slot.any()


def test_greedy_balances():
    work = make()
    benefit = compute_benefit(work, COSTS)
    for ranks in (2, 4, 8):
        placement = place(benefit, ranks)
        placement.in_time_order()  # validates again
        loads = np.zeros((placement.iterations, ranks))
        for site in np.unique(placement.site):
            groups = np.flatnonzero(placement.site == site)
            loads.flat[site] = benefit.load(groups[:1], groups[1:2] if len(groups) == 2 else np.array([-1]))[0]
        balance = loads.max(1).sum() * ranks / loads.sum()
        dealt = deal(work.groups, ranks)
        lone_loads = np.zeros((dealt.iterations, ranks))
        lone_loads.flat[dealt.site] = benefit.times
        assert balance < 1.2 and balance <= lone_loads.max(1).sum() * ranks / lone_loads.sum() + 0.05


@given(groups=st.integers(1, 60), ranks=st.integers(1, 9), each=st.integers(1, 2))
def test_deal_and_time_order(groups, ranks, each):
    placement = deal(groups, ranks, each)
    assert placement.in_time_order().slot.tolist() == placement.slot.tolist()
    flipped = Placement(ranks, placement.rank, placement.iteration, placement.slot)
    assert (flipped.previous()[placement.slot == 1] == placement.first()[placement.slot == 1]).all()
    before = placement.previous()
    assert (before == -1).sum() == min(ranks, -(-groups // each))


def test_placement_refuses():
    zero = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="share one rank"):
        Placement(1, zero, zero, zero)
    with pytest.raises(ValueError, match="slot 0 is empty"):
        Placement(1, zero[:1], zero[:1], zero[:1] + 1)
    with pytest.raises(UserError, match="at least one GPU"):
        deal(4, 0)


def test_too_short_and_unknown_models():
    short = Workload("w", EvolvingGraph(50, 30, snapshots=4).statistics(), model_shape("t-gcn", 8, 8), Hyper())
    with pytest.raises(UserError, match="needs more"):
        strategy("psg").plan(short, 1, COSTS)
    with pytest.raises(UserError, match="did you mean 'real-reuse'"):
        strategy("real-reus")
    with pytest.raises(UserError, match="did you mean 'wd-gcn'"):
        model_shape("wdgcn", 8)


@pytest.mark.slow
def test_ten_million_tasks_in_seconds():
    """Contract of the builder: vectorised. 200,000 groups of one snapshot stream give over three million rows."""
    counts = [field.name for field in fields(STATS) if field.name not in ("num_nodes", "lasting")]
    stats = replace(STATS, lasting=None, **{name: np.resize(getattr(STATS, name), 200_005) for name in counts})
    schedule = strategy("psg").plan(Workload("long", stats, make().model), 1024, COSTS)
    assert len(schedule) > 3_500_000


def test_every_strategy_says_in_a_sentence_what_it_does():
    for name, planner in STRATEGIES.items():
        assert planner.summary.endswith(".") and planner.summary.count(". ") == 0 and len(planner.summary) < 140, name
