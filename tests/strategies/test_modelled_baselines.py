"""DGC and DynaHB: exact rows of a tiny case, memory, deadlock-freeness and conservation of work for any workload and rank count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.baselines.snapshots.dgc import DGC
from chronoscale.strategies.baselines.snapshots.dynahb_modelled import ModelledDynaHB
from chronoscale.strategies.baselines.snapshots.vertex_shares import expected_distinct, split_counts
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import executable, strategy
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, Workload

CLUSTER = presets.cluster("h200-1024")
COSTS = DatasheetCosts(CLUSTER.device)
STATS = EvolvingGraph(400, 2000, snapshots=60, churn=0.05, seed=3).statistics()
PLANNERS = (DGC(), ModelledDynaHB())


def make(model: str = "wd-gcn", layers: int = 1, stats: SnapshotStatistics = STATS, **hyper: int) -> Workload:
    return Workload("w", stats, model_shape(model, 8, 16, layers), Hyper(**hyper))


def tiny() -> Workload:
    """Two groups of two snapshots of ten nodes, all active; 40 edges each, then 60; four nodes change at snapshot 1."""
    counts = {name: np.zeros(4, np.int64) for name in ("added", "removed", "touched_rows", "effective_edges", "changed_edges", "map_rows")}
    stats = SnapshotStatistics(
        nodes=np.full(4, 10), edges=np.array([40, 60, 60, 60]), changed_nodes=np.array([0, 4, 0, 0]), num_nodes=10, **counts
    )
    return make(stats=stats, group_size=2)


def written(schedule, rank=0):
    return [
        (Op(schedule.op[i]).name, Lane(schedule.lane[i]).name, int(schedule.step[i]), int(schedule.rows[i]), int(schedule.edges[i]))
        for i in np.flatnonzero(schedule.rank == rank)
    ]


def cell(step, edges):
    stages = (("AGGREGATE", edges), ("TRANSFORM", 0), ("TEMPORAL", 0))
    return [(op, "COMPUTE", step, 10, read) for op, read in stages]


def test_dgc_row_by_row():
    """Two groups side by side, 20 rows and 100 edges, then 120; ranks have half each without skew, the cut remade at every snapshot."""
    schedule = DGC(span=1, cut=0.5, skew=0.0).plan(tiny(), 2, COSTS)
    assert written(schedule) == [
        ("H2D", "H2D", 0, 10, 60),
        ("ALLTOALL", "COMM", 0, 0, 0),
        *cell(0, edges=60),
        ("ALLTOALL", "COMM", 1, 0, 0),
        ("H2D", "H2D", 1, 10, 70),
        ("ALLTOALL", "COMM", 1, 0, 0),
        *cell(1, edges=70),
        ("BACKWARD", "COMPUTE", 1, 20, 0),
        ("ALLTOALL", "COMM", 1, 0, 0),
        ("BACKWARD", "COMPUTE", 0, 20, 0),
        ("ALLREDUCE", "COMM", -1, 0, 0),
        ("OPTIMIZE", "COMPUTE", -1, schedule.rows[-1], 0),
    ]
    # 50 edges a rank, 0.5 (1 - 1/2) of them cut: 12 draws among 10 remote nodes find 10 (1 - 0.9^12) = 7; 8 features of 4 bytes
    size = schedule.bytes[(schedule.op == Op.ALLTOALL) & (schedule.rank == 0)]
    # 4 nodes of one group change at its second snapshot: 2 a rank, half of them from elsewhere, h and c of 16 values
    states = 1 * 16 * 2 * 4
    assert size.tolist() == [7 * 8 * 4, states, expected_distinct(np.array([10]), np.array([15]))[0] * 8 * 4, states]


def test_dynahb_row_by_row():
    schedule = ModelledDynaHB().plan(tiny(), 2, COSTS)
    # 25 of 50 edges end at remote nodes: 10 (1 - 0.9^25) = 9 of 10; the next snapshot's 30 find 9, too
    assert written(schedule) == [
        ("H2D", "H2D", -1, schedule.rows[0], 0),
        ("GATHER", "HOST", 0, 19, 0),
        ("H2D", "H2D", 0, 10, 60),
        *cell(0, edges=60),
        ("GATHER", "HOST", 1, 19, 0),
        ("H2D", "H2D", 1, 10, 70),
        *cell(1, edges=70),
        ("BACKWARD", "COMPUTE", -1, 40, 0),
        ("OPTIMIZE", "COMPUTE", -1, schedule.rows[0], 0),
        ("D2H", "D2H", -1, schedule.rows[0], 0),
    ]
    assert ModelledDynaHB().cached_bytes(tiny(), 2) == 2 * 2 * 19 * 8 * 4


def test_dynahb_waits_for_no_other_rank():
    schedule = ModelledDynaHB().plan(make(), 8, COSTS)
    assert (schedule.collective == -1).all()
    owner = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
    assert (schedule.rank[owner] == schedule.rank[schedule.dep]).all()


def test_chunks_are_uneven_and_their_cut_is_remade():
    weights = [DGC(skew=0.25).weights(64, 10, span) for span in (0, 1)]
    for weight in weights:
        np.testing.assert_allclose(weight.sum(1), 1)
        assert 1.2 < weight.max() * 64 < 1.3 and 0.7 < weight.min() * 64 < 0.8
    assert not np.allclose(*weights)
    assert np.allclose(DGC(skew=0).weights(64, 1, 0) * 64, 1)


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ranks", [1, 3, 1024])
def test_they_replay_and_free_what_they_take(planner, model, ranks):
    schedule = planner.plan(make(model, layers=2), ranks, COSTS)
    trace = replay(schedule, presets.scaled(CLUSTER, ranks), COSTS)
    assert len(trace) == len(schedule) and trace.span_ns > 0
    taken, given = (np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free))
    assert (taken == given).all() and (peaks(schedule, trace) >= schedule.resident).all() and taken.sum() > 0
    assert schedule.iterations == strategy("psg").plan(make(), ranks, COSTS).iterations
    gat = model == "gat-lstm"
    first = np.flatnonzero((schedule.op == Op.TRANSFORM) & (schedule.layer == 0))[0]
    then = np.flatnonzero((schedule.op == Op.AGGREGATE) & (schedule.layer == 0))[0]
    assert (first < then) == gat and (schedule.width[then] == (16 if gat else 8))


@pytest.mark.slow
@given(
    ranks=st.integers(1, 70),
    layers=st.integers(1, 3),
    hyper=st.builds(Hyper, group_size=st.integers(1, 5), groups_per_rank=st.integers(1, 2), stride=st.integers(1, 3)),
    model=st.sampled_from(sorted(MODELS)),
    dgc=st.builds(DGC, span=st.integers(1, 4), cut=st.floats(0, 1), skew=st.floats(0, 0.9)),
)
def test_work_is_conserved_and_nothing_deadlocks(ranks, layers, hyper, model, dgc):
    """Entries aggregated over ranks are those of the groups' snapshots, plus what DynaHB says is redundant; so are their vertices."""
    work = Workload("w", STATS, model_shape(model, 8, 16, layers), hyper)
    starts, size = np.arange(work.groups) * hyper.stride, hyper.group_size
    entries = sum(int(STATS.edges[starts + step].sum()) + work.groups * 400 for step in range(size))
    for planner, redundant in ((dgc, 0), (ModelledDynaHB(), ModelledDynaHB().redundant(work, ranks))):
        schedule = planner.plan(work, ranks, COSTS)
        summed = schedule.tasks(Op.AGGREGATE)
        assert schedule.edges[summed].sum() == layers * entries + redundant
        assert redundant == 0 or (layers > 1 and ranks > 1)
        top = summed[schedule.layer[summed] == layers - 1]
        assert schedule.rows[top].sum() == work.groups * size * 400
        assert (schedule.alloc.sum() == schedule.free.sum()) and replay(schedule, CLUSTER, COSTS).span_ns > 0
    if layers > 1 and ranks > 1:
        assert redundant > 0


@given(total=st.lists(st.integers(0, 10**12), min_size=1, max_size=5), ranks=st.integers(1, 40), seed=st.integers(0, 99))
def test_split_is_exact(total, ranks, seed):
    weight = np.random.default_rng(seed).random(ranks) + 0.1
    counts = split_counts(np.array(total), weight / weight.sum())
    assert (counts >= 0).all() and counts.sum(1).tolist() == total


def test_distinct_against_drawing():
    rng = np.random.default_rng(0)
    drawn = np.mean([len(np.unique(rng.integers(0, 50, 80))) for _ in range(2000)])
    assert abs(expected_distinct(np.array([50]), np.array([80]))[0] - drawn) < 1.2
    assert expected_distinct(np.array([0, 1, 5]), np.array([7, 7, 0])).tolist() == [0, 1, 0]


def test_a_host_gather_is_no_faster_than_the_bus():
    schedule = ModelledDynaHB().plan(make(), 4, COSTS)
    gathers = schedule.tasks(Op.GATHER)
    ns, _ = COSTS.predict(schedule, gathers)
    assert (ns >= schedule.bytes[gathers] / CLUSTER.device.h2d.bandwidth * 1e9 - 1).all()


def test_refusals():
    with pytest.raises(UserError, match="strategy 'dgc' is simulated only"):
        executable("dgc")
    for name in ("dgc", "dynahb"):
        with pytest.raises(UserError, match="at least one GPU"):
            strategy(name).plan(make(), 0, COSTS)
    assert executable("psg") is strategy("psg")
    with pytest.raises(UserError, match="did you mean"):
        executable("psgg")
    with pytest.raises(UserError, match=r"dgc: span at least 1"):
        DGC(skew=1.0)
