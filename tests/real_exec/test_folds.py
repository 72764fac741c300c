"""Folds: what is computed on one row for all nodes without edges is what is computed on a row for each of them."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from pairwise import pairwise

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets.snapshots.lasting import SPAN
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots.evaluation import GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.folds import UNFOLDED, Fold, SpreadRows, active_nodes, fold_snapshot, rows_before
from chronoscale.real_exec.snapshots.live_evaluation import LiveEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.material_files import map_material, write_material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.folding import computed_rows
from chronoscale.strategies.snapshots.forms import uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Hyper, Workload

NODES, HUB, SNAPSHOTS = 60, 7, 13
STRATEGIES = [name for name, planner in of("snapshots").items() if planner.kind == "groups" and not planner.solves]
COSTS = DatasheetCosts(presets.cluster("h200").device)


def sequence_of(seed: int, nodes: int = NODES, active: int = 14) -> SnapshotSequence:
    """Snapshots of a few nodes of many: some edges come, go and come back; a hub has an edge with every active node now and then, one
    snapshot has no edge, and most nodes never have one."""
    rng = np.random.default_rng(seed)
    chosen = np.append(rng.choice(nodes, active, replace=False), HUB)
    pairs = np.unique(rng.choice(chosen, (40, 2)), axis=0)
    pairs, snapshots = pairs[pairs[:, 0] != pairs[:, 1]], []
    for t in range(SNAPSHOTS):
        edges = pairs[rng.random(len(pairs)) < (0.0 if t == 5 else 0.12)]
        if t % 4 == 1:
            others = chosen[chosen != HUB]
            spokes = np.stack([others, np.full(len(others), HUB)], 1)
            edges = np.concatenate([edges, spokes, spokes[:3, ::-1]])
        snapshots.append(Snapshot.from_edges(nodes, *np.ascontiguousarray(edges.T.astype(np.int32))))
    return SnapshotSequence.from_snapshots([replace(s, weight=None) for s in snapshots], "few")


def work_of(graphs: SnapshotSequence, model: str, layers: int, folds: bool, **hyper: int) -> Workload:
    stats = statistics_of(graphs)
    shape = replace(model_shape(model, 2, 4, layers), outputs=2)
    return Workload("w", stats if folds else replace(stats, lasting=None), shape, Hyper(task="degrees", **{"group_size": 3, **hyper}))


def train(graphs: SnapshotSequence, work: Workload, schedule):
    """Losses of an epoch in float64 (but for features and weights of edges, which are float32 numbers), and the program."""
    material, context = SnapshotMaterial(graphs, 2, weighted=work.model.spatial == "gcn", task="degrees", hyper=work.hyper), Context()
    model = SnapshotModel(work.model, 5).double()
    torch.set_default_dtype(torch.float64)
    try:
        learner = Learner(model, context)  # its gradients
    finally:
        torch.set_default_dtype(torch.float32)
    program = SnapshotProgram(schedule, material, learner, work.hyper, context)
    program.learner.optimizer = torch.optim.SGD(program.model.parameters(), RATE)
    state, run = program.device_state, program.run
    program._targets = {goal: target.double() for goal, target in program._targets.items()}

    def watched(task):
        run(task)
        if task.op is Op.H2D:
            key = task.unit, task.step
            if key in state.features:
                state.features[key] = state.features[key].double()

    program.run = watched
    return execute(schedule, program, CpuLanes(False), "cpu").losses, program


@pytest.mark.sample(14)
@pytest.mark.parametrize(("model", "layers", "name", "form"), pairwise(product(MODELS, (1, 2), STRATEGIES, (Form.FULL, Form.MAP))))
def test_folded_groups_equal_unfolded_ones_and_dense_matrices(model, layers, name, form):
    """Losses and weights in float64, to the order of sums; of dense matrices, to what edges' weights in float32 allow."""
    graphs, planner, results = sequence_of(layers), strategy(name), []
    reuse, forms = planner.reuse, uniform_forms(SNAPSHOTS, form if planner.reuse.snapshots else Form.FULL, True)
    placed = planner.place(work_of(graphs, model, layers, True), 1, COSTS)
    for folds in (True, False):
        work = work_of(graphs, model, layers, folds)
        schedule = lower(name, work, placed, reuse, COSTS, forms)
        sent = schedule.nodes[schedule.tasks(Op.H2D)]
        assert (sent < NODES / 2).all() if folds else (sent == NODES).all()
        losses, program = train(graphs, work, schedule)
        results.append((losses, weights(program.model)))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-9, atol=1e-12)
    oracle = DenseTrainer(graphs, None, SnapshotModel(work.model, 5), work.hyper)
    np.testing.assert_allclose(results[0][0], oracle.losses(iterations_of(schedule)), rtol=1e-6)
    assert apart(results[0][1], weights(oracle.model), SnapshotModel(work.model, 5)) < 1e-4


@pytest.mark.parametrize(("model", "live", "running"), pairwise(product(MODELS, (0, 2), (False, True))))
def test_held_out_snapshots_are_evaluated_alike(model, live, running, monkeypatch):
    """From a group each, and with a state that runs on, whose rows become more; and by a model that goes on training on them."""
    graphs = sequence_of(3)
    hyper = Hyper(3, task="degrees", held=HeldOut(0.1, 0.4, live=live))
    shape = replace(model_shape(model, 2, 4, 2), outputs=2)
    scores, folds = [], []
    for folded in (True, False):
        if not folded:
            monkeypatch.setattr(SnapshotMaterial, "fold", lambda self, start, length, idle: UNFOLDED)
        material = SnapshotMaterial(graphs, 2, weighted=shape.spatial == "gcn", task="degrees", hyper=hyper)
        kind = partial(LiveEvaluation, running=running) if live else RunningEvaluation if running else GroupEvaluation
        scores.append(kind(material, hyper, Context()).scores(SnapshotModel(shape, 2), hyper.held.split(SNAPSHOTS).test)["mse"])
        folds.append({len(key) > 1 for key in material.stores()["full"]})
    assert scores[0] == pytest.approx(scores[1], rel=1e-5) and folds == [{True}, {False}]


def test_rows_of_a_longer_fold_come_from_those_of_a_shorter():
    before, after = np.array([2, 5, 9]), np.array([1, 2, 5, 8, 9, 11])
    assert rows_before(before, after, 2).tolist() == [3, 0, 1, 3, 2, 3, 3, 4]
    assert rows_before(before[:0], after[:2], 1).tolist() == [0, 0, 0] and rows_before(before, before, 0).tolist() == [0, 1, 2]
    graphs = sequence_of(5)
    for length in (2, 3, 7):
        known = active_nodes(graphs, 1, length - 1)
        assert np.array_equal(active_nodes(graphs, 1, length, known), active_nodes(graphs, 1, length))


@pytest.mark.parametrize("seed", range(3))
def test_a_folded_snapshot_is_the_snapshot_on_fewer_rows(seed):
    graphs = sequence_of(seed)
    active = active_nodes(graphs, 2, 4)
    idle = np.setdiff1d(np.arange(NODES), active)
    stats = statistics_of(graphs)
    assert len(idle) == stats.lasting.count("idle", np.array([2]), 4)
    for t in range(2, 6):
        whole, folded = graphs[t].csr(), fold_snapshot(graphs[t], active, len(active) + 2).csr()
        degrees = np.diff(whole.indptr)
        assert np.diff(folded.indptr).tolist() == [*degrees[active], 1, 1] and (degrees[idle] == 1).all()
        np.testing.assert_array_equal(folded.scale[: len(active)], whole.scale[active])
        entries = np.concatenate([np.arange(whole.indptr[v], whole.indptr[v + 1]) for v in active])
        np.testing.assert_array_equal(np.append(active, [-1, -2])[folded.indices[:-2]], whole.indices[entries])
        np.testing.assert_array_equal(folded.values[:-2], whole.values[entries])


def test_values_are_spread_over_all_nodes():
    active, values = torch.tensor([1, 4, 5]), torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    rows = SpreadRows(active, 7)
    assert torch.equal(rows.spread(values), values[[3, 0, 3, 3, 1, 2, 3]])
    assert torch.autograd.gradcheck(rows.spread, values)


def test_only_alike_nodes_are_folded():
    """Not under tasks with features of nodes' own, nor for statistics without such counts, nor for more snapshots than these have."""
    graphs = sequence_of(0)
    work = work_of(graphs, "t-gcn", 1, True)
    one = computed_rows(work, np.array([0, 4]), np.array([3, 9]))
    assert one.tolist() == [len(active_nodes(graphs, start, length)) + 1 for start, length in ((0, 3), (4, 9))]
    summarising = computed_rows(replace(work, model=work_of(graphs, "evolvegcn-h", 1, True).model), np.array([0]), 3)
    assert summarising[0] == one[0] - 1 + 4
    whole = (replace(work, hyper=replace(work.hyper, task="in-degree")), work_of(graphs, "t-gcn", 1, False))
    assert all(computed_rows(other, np.array([0, 4]), 3).tolist() == [NODES, NODES] for other in whole)
    assert computed_rows(work, np.array([0]), SPAN + 1).tolist() == [NODES]
    material = SnapshotMaterial(graphs, 2)
    assert material.fold(0, 3, 1) == UNFOLDED and SnapshotMaterial(graphs, 2, task="degrees").fold(0, 3, NODES) == UNFOLDED
    for task, rows in (("in-degree", 30), ("degrees", 5)):
        with pytest.raises(ValueError, match=rf"^snapshots 0 to 2 cannot be computed on {rows} rows$"):
            SnapshotMaterial(graphs, 2, task=task).spread(Fold(0, 3, rows), torch.device("cpu"))


def test_folded_snapshots_are_shipped(tmp_path):
    """A rank that maps the files of a plan finds all that its program prepares, and trains as one that builds it."""
    graphs = sequence_of(4)
    work, losses = work_of(graphs, "wd-gcn", 2, True), []
    schedule = lower(
        "x", work, deal(work.groups, 1, 2), Reuse(snapshots=True, groups=True), COSTS, uniform_forms(SNAPSHOTS, Form.MAP, True)
    )
    built, mapped = (SnapshotMaterial(graphs, 2, task="degrees", hyper=work.hyper) for _ in range(2))
    for material in (built, mapped):
        context = Context()
        program = SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model, 5), context), work.hyper, context)
        losses.append(execute(schedule, program, CpuLanes(False), "cpu").losses)
        if material is built:
            write_material(tmp_path / "forms", built.stores(), {})
            map_material(tmp_path / "forms", mapped.stores(), pin=False)
            shipped = {kind: dict(store) for kind, store in mapped.stores().items()}
    assert np.array_equal(losses[0], losses[1])
    assert {len(key) for kind in ("full", "edges", "features") for key in shipped[kind]} == {4} and shipped["active"]
    assert all(mapped.stores()[kind][key] is form for kind, store in shipped.items() for key, form in store.items())
    assert all(mapped.stores()[kind].keys() == store.keys() for kind, store in shipped.items())
