"""What is held out: objectives, scores against dense matrices and naive predictions, training that goes on, tests of benches."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dense_trainer import DenseTrainer
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets import store
from chronoscale.datasets.generate.communities import CommunityGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import NotFiniteError, UserError
from chronoscale.real_exec.communication.collective import SingleRankCollective
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.snapshots.evaluation import GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.real_exec.training import epoch_loop
from chronoscale.real_exec.training.best_epoch import BEST, best_epoch
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.tasks import TASKS, task_of
from chronoscale.strategies.workload import Hyper, ModelChoice, Partition, Workload

GRAPHS = CommunityGraph(nodes=40, edges=160, snapshots=14, classes=3, features=5, seed=2).sequence()
HELD = HeldOut(0.2, 0.3)  # of 14 snapshots: 7 train, 3 validate, 4 test
SPLIT = HELD.split(14)
CPU = {"device": "cpu"}
OF_NODES = [name for name, task in TASKS.items() if not task.pairs]  # test_links.py has the others


def shape_for(model: str, task: str, layers: int = 2):
    aim = task_of(task)
    return model_shape(model, aim.inputs(5), 8, layers, aim.outputs(GRAPHS.num_classes, "x", 8))


class Half(SingleRankCollective):
    """One of two ranks, which keeps what it would add."""

    ranks = 2

    def all_reduce(self, values):
        self.own = values.clone()


@pytest.mark.parametrize("task", OF_NODES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", [GroupEvaluation, RunningEvaluation])
def test_scores_are_those_of_dense_matrices(kind, model, task):
    """Of groups, and of a state that runs on from the first snapshot; on one rank, and on two that add up. The model is as before."""
    shape, hyper = shape_for(model, task), Hyper(3, horizon=2, task=task)
    net = SnapshotModel(shape, 4)
    material = SnapshotMaterial(GRAPHS, shape.inputs, weighted=shape.spatial == "gcn", task=task)
    features = torch.from_numpy(np.asarray(GRAPHS.features))
    oracle = DenseTrainer(GRAPHS, features, net, hyper)
    expected = []
    for goal in SPLIT.test:
        with torch.no_grad():
            begin = goal - 4 if kind is GroupEvaluation else 0
            predicted = oracle.model.readout(oracle.outputs(range(begin, goal - 1))[-1])
        if task == "classes":
            known = oracle.classes >= 0
            expected.append((predicted.argmax(1) == oracle.classes)[known].double().mean())
        else:
            expected.append(oracle.error(predicted, goal))
    result = kind(material, hyper, Context()).scores(net, SPLIT.test)
    assert net.training and list(result) == ["accuracy" if task == "classes" else "mse"]
    assert next(iter(result.values())) == pytest.approx(float(torch.stack(expected).mean()), rel=1e-5)
    halves = [Half(), Half()]
    for rank, half in enumerate(halves):
        kind(material, hyper, Context(rank=rank, collective=half)).scores(net, SPLIT.test)
    together = material.objective.scores(halves[0].own + halves[1].own)
    assert together == pytest.approx(result) and halves[0].own[1] > 0
    assert halves[1].own[1] == (halves[0].own[1] if kind is GroupEvaluation else 0)  # four snapshots, two a rank, or the first's


@pytest.mark.slow
@given(st.sampled_from(sorted(OF_NODES)), st.integers(0, 2**31), st.integers(1, 6))
def test_parts_of_the_rows_add_up_to_the_loss(task, seed, parts):
    """Also parts without a labelled node, and with no row."""
    aim, draw = objective_of(task_of(task), GRAPHS, Hyper()), torch.Generator().manual_seed(seed)
    predicted = torch.randn(40, aim.outputs(8), dtype=torch.float64, generator=draw, requires_grad=True)
    target = torch.from_numpy(aim.target(5))
    target = target if task == "classes" else target.double()
    of = torch.randint(parts, (40,), generator=draw)
    total = sum(aim.total(predicted[of == part], target[of == part]) for part in range(parts))
    whole = aim.loss(predicted, target)
    torch.testing.assert_close(total / aim.predictions(0), whole)
    torch.testing.assert_close(*(torch.autograd.grad(loss, predicted)[0] for loss in (total / aim.predictions(0), whole)))
    assert torch.autograd.gradcheck(lambda values: aim.loss(values, target), predicted)
    sums = sum(aim.sums(predicted[of == part], target[of == part]) for part in range(parts))
    assert aim.scores(sums) == pytest.approx(aim.scores(aim.sums(predicted, target)))


def test_targets_and_features_are_degrees():
    material = SnapshotMaterial(GRAPHS, 2, task="degrees")
    material.prepare([], [6])
    material.read([5, 6])
    for t in (5, 6):
        dense = np.zeros((40, 40))
        dense[GRAPHS[t].dst, GRAPHS[t].src] = 1
        expected = np.log1p(np.stack([dense.sum(1), dense.sum(0)], 1))
        np.testing.assert_allclose(material.features(t), expected, rtol=1e-6)
    np.testing.assert_allclose(material.target(6), expected, rtol=1e-6)
    static = SnapshotMaterial(GRAPHS, 5)
    assert static.features(0) is static.features(9)


def test_a_prediction_that_is_not_finite_has_no_score():
    aim = objective_of(task_of("classes"), GRAPHS, Hyper())
    predicted = torch.zeros(40, 3)
    predicted[int(np.flatnonzero(GRAPHS.classes >= 0)[0]), 1] = torch.inf
    assert np.isnan(aim.scores(aim.sums(predicted, torch.from_numpy(aim.target(0))))["accuracy"])


@pytest.mark.parametrize("horizon", [1, 3])
def test_predictions_without_a_model(horizon):
    scored = objective_of(task_of("degrees"), GRAPHS, Hyper()).rivals(SPLIT, SPLIT.test, horizon)
    result = {one.name: one.scores for one in scored}
    degrees = np.log1p(np.stack([[s.in_degree(), s.out_degree()] for s in GRAPHS]).astype(float))  # [T, 2, N]
    last = np.mean([(degrees[t] - degrees[t - horizon]) ** 2 for t in SPLIT.test])
    mean = np.mean([(degrees[t] - degrees[:7].mean(0)) ** 2 for t in SPLIT.test])
    assert result["last value"]["mse"] == pytest.approx(last, rel=1e-5) and result["training mean"]["mse"] == pytest.approx(mean, rel=1e-5)
    counts = np.bincount(GRAPHS.classes[GRAPHS.classes >= 0])
    (frequent,) = objective_of(task_of("classes"), GRAPHS, Hyper()).rivals(SPLIT, SPLIT.test, horizon)
    assert (frequent.name, frequent.scores) == ("most frequent class", {"accuracy": counts.max() / counts.sum()})


BY_NODE = HeldOut(0.2, 0.3, nodes=True)


@given(st.integers(8, 60), st.integers(0, 9), st.floats(0.15, 0.4), st.floats(0.15, 0.4))
def test_every_labelled_node_is_in_one_part(nodes, seed, validation, test):
    classes = np.random.default_rng(nodes).integers(-1, 3, nodes).astype(np.int32)
    classes[:6] = 1
    held, labelled = HeldOut(validation, test, nodes=True), int((classes >= 0).sum())
    parts = held.split_classes(classes, seed)
    assert [int((part >= 0).sum()) for part in parts[1:]] == [round(validation * labelled), round(test * labelled)]
    told = np.stack(parts)
    assert ((told >= 0).sum(0) == (classes >= 0)).all() and (told.max(0) == classes).all() and told.dtype == np.int32
    assert np.array_equal(told, np.stack(held.split_classes(classes, seed))), "a seed's split is always the same"
    assert all((part == classes).all() for part in HeldOut(validation, test).split_classes(classes, seed))


def test_seeds_hold_out_other_nodes():
    splits = [BY_NODE.split_classes(GRAPHS.classes, seed).test for seed in range(3)]
    assert not (splits[0] == splits[1]).all() and not (splits[1] == splits[2]).all()


def test_held_out_nodes_are_scored_and_not_trained_on():
    """A snapshot's target is its part's nodes; scores and the most frequent class are of those, as a loop over nodes has them."""
    hyper, split = Hyper(held=BY_NODE, seed=4), BY_NODE.split(14)
    parts = BY_NODE.split_classes(GRAPHS.classes, 4)
    aim = objective_of(task_of("classes"), GRAPHS, hyper)
    for numbers, told in zip(split, parts, strict=True):
        for t in numbers:
            assert aim.target(t).tolist() == aim.truth(t).tolist() == told.tolist()
            assert aim.predictions(t) == (told >= 0).sum()
    predicted = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    for part, told in ((split.validation, parts.validation), (split.test, parts.test)):
        right = [int(predicted[node].argmax()) == told[node] for node in range(40) if told[node] >= 0]
        score = aim.scores(aim.sums(predicted, torch.from_numpy(aim.truth(part[0]))))
        assert score == {"accuracy": pytest.approx(sum(right) / len(right))}
        trained = parts.training[parts.training >= 0].tolist()
        common = max(range(3), key=trained.count)
        (rival,) = aim.rivals(split, part, 1)
        assert rival.scores == {"accuracy": pytest.approx(np.mean([one == common for one in told if one >= 0]))}


def test_classes_that_are_held_out_change_no_loss():
    """Other classes of the nodes that validate and test: the same losses, other scores."""
    hyper = Hyper(3, task="classes", held=BY_NODE)
    parts = BY_NODE.split_classes(GRAPHS.classes, 0)
    other = GRAPHS.classes.copy()
    other[parts.training < 0] = np.where(other[parts.training < 0] >= 0, (other[parts.training < 0] + 1) % 3, -1)
    losses, scores = [], []
    for classes in (GRAPHS.classes, other):
        material = SnapshotMaterial(replace(GRAPHS, classes=classes), 5, task="classes", hyper=hyper)
        net = SnapshotModel(shape_for("t-gcn", "classes"), 4)
        material.prepare([], range(14))
        scores.append(GroupEvaluation(material, hyper, Context()).scores(net, SPLIT.test)["accuracy"])
        torch.manual_seed(0)
        predicted = torch.randn(40, 3)
        losses.append([float(material.objective.loss(predicted, material.target(t))) for t in SPLIT.training])
    assert losses[0] == losses[1] and scores[0] != scores[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"nodes": True},
            r"^training\.held_nodes: nodes are held out in the shares of the snapshots, and those are 0; set training\.test$",
        ),
        (
            {"test": 0.2, "live": 1, "nodes": True},
            r"^training\.live: trains on test snapshots, of which training\.held_nodes holds classes out",
        ),
    ],
)
def test_nodes_are_held_out_in_shares_and_not_trained_on_live(given, message):
    with pytest.raises(UserError, match=message):
        HeldOut(**given)


def test_too_few_nodes_to_hold_out_are_refused():
    few = np.array([0, 1, -1, -1], np.int32)
    with pytest.raises(UserError, match=r"^training\.held_nodes: test: a share of 0\.2 of 2 nodes with a class is none of them$"):
        HeldOut(0.5, 0.2, nodes=True).split_classes(few, 0)
    with pytest.raises(UserError, match=r"training: a share of 0\.1 of 2 nodes with a class is none of them$"):
        HeldOut(0.45, 0.45, nodes=True).split_classes(few, 0)


def test_what_a_task_cannot_be():
    bare = replace(GRAPHS, classes=np.full(40, -1, np.int32), name="bare")
    for graphs in (bare, replace(bare, classes=None)):
        with pytest.raises(UserError, match=r"^training\.task: 'classes' predicts classes of nodes, dataset 'bare' has none$"):
            SnapshotMaterial(graphs, 5, task="classes")
    with pytest.raises(UserError, match=r"^unknown training\.task 'degree'; did you mean 'degrees'\?$"):
        Hyper(task="degree")


def job_of(folder: Path, name: str, repeats: int, held_out: HeldOut = HELD, task: str = "degrees") -> Job:
    """One rank; `folder`/out is the training's."""
    if not (folder / "data").exists():
        store.save(folder / "data", GRAPHS)
        np.save(folder / "parts.npy", np.zeros(40, np.int32))
    (folder / "out" / "epochs").mkdir(parents=True, exist_ok=True)
    hyper, ones = Hyper(3, task=task, held=held_out), np.ones((14, 1), np.int64)
    partition = Partition(40 * ones, statistics_of(GRAPHS).edges[:, None], 0 * ones, 0 * ones)
    work = Workload("w", statistics_of(GRAPHS), shape_for("t-gcn", task, 1), hyper, partition)
    strategy(name).plan(work, 1, UNUSED).save(folder / f"{name}.parquet")
    item = Item(name, str(folder / f"{name}.parquet"), str(folder / "data"), hyper, parts=str(folder / "parts.npy"))
    choice = ModelChoice("t-gcn", 8, 1, work.model.inputs)
    return Job("job", (item,), str(folder / "out"), choice, repeats, settings=Settings(**CPU, learning_rate=0.1))


@pytest.mark.parametrize("name", ["esdg", "distdgl"])
def test_training_goes_on_where_it_was_cut_off(tmp_path, name):
    """With the losses, scores, best epoch and test of a training that was not."""
    results = []
    for place, parts in (("whole", (6,)), ("cut", (1, 4, 6))):
        (tmp_path / place).mkdir()
        for repeats in parts:
            epoch_loop.train(job_of(tmp_path / place, name, repeats))
        out = tmp_path / place / "out"
        best = torch.load(out / BEST, weights_only=True)
        results.append(([(each.losses, each.scores) for each in epoch_records(out)], best, json.loads((out / "test.json").read_text())))
    (epochs, best, tested), (others, other, again) = results
    assert len(epochs) == 6 and epochs == others and tested == again
    assert best["epoch"] == other["epoch"] == best_epoch([scores for _, scores in epochs])
    assert all(torch.equal(value, other["model"][key]) for key, value in best["model"].items())
    model = SnapshotModel(shape_for("t-gcn", "degrees", 1))
    model.load_state_dict(best["model"])
    material = SnapshotMaterial(GRAPHS, 2, task="degrees")
    hyper = Hyper(3, task="degrees", held=HELD)
    assert tested == pytest.approx(GroupEvaluation(material, hyper, Context()).scores(model, SPLIT.test))
    assert epochs[best["epoch"]][1] == pytest.approx(GroupEvaluation(material, hyper, Context()).scores(model, SPLIT.validation))


def test_without_validation_the_last_epoch_is_tested(tmp_path):
    epoch_loop.train(job_of(tmp_path, "esdg", 3, HeldOut(test=0.3)))
    assert [each.scores for each in epoch_records(tmp_path / "out")] == [{}] * 3
    assert not (tmp_path / "out" / BEST).exists() and json.loads((tmp_path / "out" / "ended.json").read_text())["best"] is None
    saved = torch.load(tmp_path / "out" / "checkpoint.pt", weights_only=True)["model"]
    model = SnapshotModel(shape_for("t-gcn", "degrees", 1))
    model.load_state_dict(saved)
    expected = GroupEvaluation(SnapshotMaterial(GRAPHS, 2, task="degrees"), Hyper(3, task="degrees"), Context()).scores(model, SPLIT.test)
    assert json.loads((tmp_path / "out" / "test.json").read_text()) == pytest.approx(expected)


@pytest.mark.parametrize("task", ["degrees", "classes"])
def test_a_bench_tests_after_its_last_pass(tmp_path, task):
    """Each strategy with its own model; the same where they take the same steps."""
    jobs = [job_of(tmp_path, name, 3, task=task) for name in ("psg", "esdg", "distdgl")]
    result = run_job(replace(jobs[0], items=tuple(job.items[0] for job in jobs), warmup=1))
    for passes in result.values():
        assert [bool(one.scores) for one in passes] == [False, False, True]
    one, *others = (passes[-1].scores for passes in result.values())
    assert all(other == pytest.approx(one, rel=1e-4) for other in others)
    assert not any(one.scores for one in run_job(job_of(tmp_path, "psg", 1, HeldOut(), task))["psg"])


def test_a_test_that_is_not_finite_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(GroupEvaluation, "scores", lambda self, model, part: {"mse": float("inf")})
    with pytest.raises(NotFiniteError, match="strategy 'esdg', after the last pass: the test MSE is not finite"):
        run_job(job_of(tmp_path, "esdg", 1))
    with pytest.raises(NotFiniteError, match=r"strategy 'esdg', .*epoch 0: the validation MSE is not finite"):
        epoch_loop.train(job_of(tmp_path, "esdg", 1))
    with pytest.raises(NotFiniteError, match="strategy 'esdg', after training: the test MSE is not finite"):
        epoch_loop.train(job_of(tmp_path, "esdg", 1, HeldOut(test=0.3)))
