"""Plans of MPNN-LSTM: a recurrence of two cells on the last layer alone, in rows, bytes, memory and states that travel."""

import numpy as np
import pytest

from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.strategies.baselines.snapshots.dgc import DGC
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import of
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, ModelParts, model_shape
from chronoscale.strategies.workload import Hyper, ModelShape, Partition, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = GrowthGraph.rmat(60, 200, 14, 0.1, 1).sequence().without_self_edges()
N, INPUTS, HIDDEN = GRAPHS.num_nodes, 6, 8
PLANNERS = [planner for planner in of("snapshots").values() if not planner.solves and planner.kind not in ("blocks", "sampled")]


def work_of(layers: int, model: str = "mpnn-lstm", ranks: int = 1, **hyper: int) -> Workload:
    cut = VertexPartition(np.random.default_rng(ranks).integers(0, ranks, N).astype(np.int32), ranks)
    return Workload("w", statistics_of(GRAPHS), model_shape(model, INPUTS, HIDDEN, layers), Hyper(**hyper), Partition(*cut.count(GRAPHS)))


@pytest.mark.sample(6)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)
def test_the_last_layer_alone_recurs(planner, ranks, layers):
    """Every strategy steps every node of every group's snapshots once, in the last layer; layers below convolve as WD-GCN's do, but where
    a schedule places groups by their times."""
    schedule, other = (planner.plan(work_of(layers, model, ranks), ranks, COSTS) for model in ("mpnn-lstm", "wd-gcn"))
    stepped = schedule.tasks(Op.TEMPORAL)
    assert set(schedule.layer[stepped]) == {layers - 1} and set(schedule.width[stepped]) == {2 * HIDDEN}
    assert schedule.rows[stepped].sum() == work_of(layers).groups * 4 * N
    for op in (Op.H2D, Op.AGGREGATE, Op.INCREMENT, Op.TRANSFORM) if not planner.name.startswith("real-g") else ():
        assert sorted(schedule.flops[schedule.op == op].tolist()) == sorted(other.flops[other.op == op].tolist())
    taken, given = (np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free))
    assert (taken == given).all()


@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_by_hand(layers):
    """Two LSTMs of 8: each four gates of 8 x 8 twice and their values; kept are gates and states, and, side by side in one h and one c,
    both cells' states once more."""
    work = work_of(layers)
    schedule = lower("x", work, deal(work.groups, 1), Reuse(), COSTS)
    row = schedule.tasks(Op.TEMPORAL)[0]
    assert schedule.flops[row] == 2 * (N * HIDDEN * (2 * 2 * 4 * HIDDEN + 4 * 4))
    assert schedule.alloc[row] == 2 * (4 + 2 + 2) * N * HIDDEN * 4
    numbers = 2 * (25 * HIDDEN + HIDDEN) + 8 * HIDDEN  # an LSTM's step, a first one's zeros; h and c of both are laid side by side
    weights = 2 * 4 * 2 * (HIDDEN * HIDDEN + HIDDEN)
    assert schedule.bytes[row] == pytest.approx(4 * (N * numbers + weights), rel=0.05)


@pytest.mark.parametrize("reuse", [Reuse(), Reuse(pipeline=True), Reuse(snapshots=True), Reuse(snapshots=True, groups=True)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_shared_is_what_wd_gcn_shares(layers, reuse):
    """Transfers, increments and transformations of the first layer are WD-GCN's, row by row; of a copy between stages there is one a
    recurrence."""
    schedules = []
    for model in ("mpnn-lstm", "wd-gcn"):
        work = work_of(layers, model)
        schedules.append(lower("x", work, deal(work.groups, 1, 2), reuse, COSTS))
    one, other = ({**{n: getattr(s, n) for n in ("op", "unit", "step", "layer", "rows", "bytes", "alloc")}} for s in schedules)
    first = np.array([Op.H2D, Op.RECONSTRUCT, Op.AGGREGATE, Op.INCREMENT, Op.TRANSFORM])
    found, expected = (np.stack([s[n][np.isin(s["op"], first) & (s["layer"] == 0)] for n in s]) for s in (one, other))
    assert np.array_equal(found, expected)
    steps = work_of(layers).groups * 4
    assert ((one["op"] == Op.TEMPORAL).sum(), (one["op"] == Op.COPY).sum()) == (steps, reuse.pipeline * steps)


def test_esdg_by_hand():
    """Two ranks, a snapshot each: the state of the second layer travels, 2 cells' h and c; the first layer has none."""
    planner = of("snapshots")["esdg"]
    schedule = planner.plan(work_of(2, ranks=2, group_size=2, horizon=12), 2, COSTS)
    rows = [" ".join(f"{Op(schedule.op[r]).name}.{schedule.layer[r]}" for r in np.flatnonzero(schedule.rank == rank)) for rank in (0, 1)]
    convolved = "H2D.0 AGGREGATE.0 TRANSFORM.0 AGGREGATE.1 TRANSFORM.1"
    ended = "FORWARD.0 BACKWARD.0 ALLREDUCE.-1 OPTIMIZE.-1"
    assert rows[0] == f"{convolved} TEMPORAL.1 SEND.1 FORWARD.1 RECV.1 BACKWARD.1 {ended}"
    assert rows[1] == f"{convolved} RECV.1 TEMPORAL.1 FORWARD.1 BACKWARD.1 SEND.1 {ended}"
    assert set(schedule.bytes[schedule.op == Op.SEND]) == {2 * N * 2 * HIDDEN * 4}
    dense = schedule.flops[(schedule.op == Op.TRANSFORM) & (schedule.layer == 0)][0]
    assert set(schedule.flops[(schedule.op == Op.FORWARD) & (schedule.layer == 0)]) == {dense}


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_dgc_moves_the_states_of_one_layer(layers):
    """h and c of two cells, however many layers there are; WD-GCN's of one cell are of every layer."""
    moved = {}
    for model in ("mpnn-lstm", "wd-gcn"):
        schedule = DGC(span=2, cut=0.0, skew=0.0).plan(work_of(layers, model, 2), 2, COSTS)
        states = (schedule.op == Op.ALLTOALL) & (schedule.layer == layers - 1) & (schedule.bytes > 0)
        moved[model] = schedule.bytes[states].sum()
    assert moved["mpnn-lstm"] * layers == moved["wd-gcn"] * 2 > 0


def test_a_chunks_states_come_before_the_layer_that_steps_them():
    schedule = DGC(span=2).plan(work_of(3, ranks=2), 2, COSTS)
    arrivals = set(np.flatnonzero((schedule.op == Op.ALLTOALL) & (schedule.step == 2) & (schedule.layer == 2)).tolist())
    waiting = {
        int(task)
        for task in schedule.tasks(Op.TEMPORAL)
        if arrivals & set(schedule.dep[schedule.dep_ptr[task] : schedule.dep_ptr[task + 1]].tolist())
    }
    assert {(int(schedule.step[task]), int(schedule.layer[task])) for task in waiting} == {(2, 2)}
    assert len(waiting) == 2 * schedule.iterations


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_parameters_by_hand(layers):
    cell = 4 * (2 * HIDDEN * HIDDEN + 2 * HIDDEN)
    dense = (INPUTS + 1) * HIDDEN + (layers - 1) * (HIDDEN + 1) * HIDDEN
    assert model_shape("mpnn-lstm", INPUTS, HIDDEN, layers).parameters == dense + 2 * cell + HIDDEN + 1


def test_sizes_that_make_no_model():
    with pytest.raises(UserError, match="model 'x': layers, widths, heads and depth must be at least 1"):
        ModelShape("x", "gcn", "lstm", 1, 4, 4, 1, 10, depth=0)
    for wrong in ({"depth": 2}, {"recurs_last": True}):
        with pytest.raises(UserError, match="model 'x': evolving weights have one cell in every layer; leave out recurs_last and depth"):
            ModelShape("x", "gcn", "lstm", 1, 4, 4, 1, 10, evolves_weights=True, **wrong)


def test_what_was_not_counted_is_refused(monkeypatch):
    monkeypatch.setitem(MODELS, "deep", ModelParts("gcn", "lstm", depth=3))
    work = Workload("w", statistics_of(GRAPHS), model_shape("deep", INPUTS, HIDDEN))
    with pytest.raises(UserError, match=r"kernels of 'gcn-lstm-3' \(groups\) were not counted .*gcn-lstm-2-last"):
        lower("x", work, deal(work.groups, 1), Reuse(), COSTS)
