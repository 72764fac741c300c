"""The task `links`: its pairs, loss, gradients and scores against brute force; epochs that draw anew; snapshots without edges."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.links import LinkPairs, LinkProtocol
from chronoscale.cuda_ext.operators import row_blocks
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots import pair_logits as decoder
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.evaluation import GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.real_exec.snapshots.pair_logits import pair_logits
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import WholeRegion
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies import registry
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, Workload

NODES, HIDDEN, EMPTY = 30, 6, (4, 11)
HELD = HeldOut(0.2, 0.3)  # of 15 snapshots: 7 or 8 train, 3 validate, 4 or 5 test
HYPER = Hyper(2, task="links", held=HELD, links=LinkProtocol(ranked=5), seed=3)


def graphs(seed: int = 0, count: int = 15, empty: tuple[int, ...] = EMPTY) -> SnapshotSequence:
    """Some edges that stay and some that do not, sources and destinations overlapping; snapshots without any edge."""
    draw = np.random.default_rng(seed)
    stays = draw.integers(0, [[NODES - 8], [NODES]], (2, 20))
    parts = []
    for t in range(count):
        src, dst = np.concatenate([stays, draw.integers(0, [[NODES - 8], [NODES]], (2, 15))], 1)
        some = (src != dst) & (t not in empty)
        parts.append(Snapshot.from_edges(NODES, src[some], dst[some]))
    return SnapshotSequence.from_snapshots(parts, "drawn")


GRAPHS = graphs()
SPLIT = HELD.split(len(GRAPHS))


def pairs_of(sequence: SnapshotSequence = GRAPHS, hyper: Hyper = HYPER) -> LinkPairs:
    return LinkPairs(sequence, hyper.held, hyper.links, hyper.seed)


@pytest.mark.parametrize("snapshot", range(SPLIT.training.stop))
def test_training_pairs(snapshot):
    """Edges first; of each negative the source is the edge's, the destination is another one of training's; the next epoch has others."""
    pairs, graph = pairs_of(), GRAPHS[snapshot]
    (source, destination), edges = pairs.training(snapshot, 1), graph.num_edges
    assert pairs.count(snapshot) == len(source) == 2 * edges
    np.testing.assert_array_equal(source, np.tile(graph.src, 2))
    np.testing.assert_array_equal(destination[:edges], graph.dst)
    trained = {int(node) for t in SPLIT.training for node in GRAPHS[t].dst}
    assert (destination[edges:] != graph.dst).all() and set(destination[edges:].tolist()) <= trained
    again = [pairs_of(hyper=replace(HYPER, seed=seed)).training(snapshot, epoch)[1, edges:] for seed, epoch in ((3, 1), (3, 2), (4, 1))]
    assert [bool((drawn == destination[edges:]).all()) for drawn in again] == [True, not edges, not edges]


@pytest.mark.parametrize("kind", ["mixed", "historical", "random"])
def test_evaluated_pairs(kind):
    """No negative is an edge of the snapshot, none comes twice; historical ones were there in training; in each run the same."""
    hyper = replace(HYPER, links=LinkProtocol(6, kind))
    met: dict[int, set[int]] = {}
    for t in SPLIT.training:
        for source, destination in zip(GRAPHS[t].src.tolist(), GRAPHS[t].dst.tolist(), strict=True):
            met.setdefault(source, set()).add(destination)
    for t in (*SPLIT.validation, *SPLIT.test):
        rows = pairs_of(hyper=hyper).evaluated(t)
        np.testing.assert_array_equal(rows, pairs_of(hyper=replace(hyper, seed=9)).evaluated(t))
        assert rows.shape == (GRAPHS[t].num_edges, 9) and rows.dtype == np.int32
        np.testing.assert_array_equal(rows[:, :2].T, [GRAPHS[t].src, GRAPHS[t].dst])
        for source, _, compared, *others in rows.tolist():
            there = [node for node in others if node >= 0]
            neighbours = set(GRAPHS[t].dst[GRAPHS[t].src == source].tolist())
            assert len(set(there)) == len(there) and not neighbours & {compared, *there}
            limit = {"mixed": 3, "historical": 6, "random": 0}[kind]
            known = met.get(source, set()) - neighbours
            assert kind == "random" or set(there[: min(limit, len(known))]) <= known
    with pytest.raises(KeyError, match="snapshot 2 is trained on"):
        pairs_of().evaluated(2)


@given(st.integers(0, 2**31), st.integers(0, 40), st.integers(1, 5), st.integers(1, 60))
def test_logits_and_gradients_by_hand(seed, count, half, block):
    """Blocks do not show; a node may be in many pairs, or in none."""
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randn(7, 2 * half, dtype=torch.float64, generator=draw, requires_grad=True)
    source, destination = torch.randint(7, (2, count), generator=draw).int()
    weight = torch.randn(count, dtype=torch.float64, generator=draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "BLOCK_NUMBERS", block)
        logits = pair_logits(ends, source, destination)
        (gradient,) = torch.autograd.grad(logits @ weight, ends)
    dense = (ends[:, :half] @ ends[:, half:].T / half**0.5)[source.long(), destination.long()]
    torch.testing.assert_close(logits, dense)
    torch.testing.assert_close(gradient, torch.autograd.grad(dense @ weight, ends)[0])
    assert row_blocks.BLOCK_NUMBERS == decoder.BLOCK_NUMBERS


@pytest.mark.parametrize("snapshot", [3, EMPTY[0]])
def test_the_loss_is_a_mean_over_pairs(snapshot):
    aim = objective_of(task_of("links"), GRAPHS, HYPER)
    target = torch.from_numpy(aim.target(snapshot))
    predicted = torch.randn(NODES, aim.outputs(HIDDEN), dtype=torch.float64, requires_grad=True)
    loss, count = aim.loss(predicted, target), aim.count(target)
    assert count == aim.predictions(snapshot) == 2 * GRAPHS[snapshot].num_edges
    (gradient,) = torch.autograd.grad(loss, predicted)
    if snapshot == EMPTY[0]:
        assert (float(loss.detach()), float(gradient.abs().sum())) == (0, 0)
        return
    torch.testing.assert_close(aim.total(predicted, target) / count, loss)
    logits = (predicted[:, :HIDDEN] @ predicted[:, HIDDEN:].T / HIDDEN**0.5)[target[0].long(), target[1].long()]
    labels = (torch.arange(count) < count // 2).double()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, predicted)[0])


def trained(name: str, model: str, sequence: SnapshotSequence, epochs: int):
    """Losses of all epochs and the weights, plain gradient descent on one rank; and the schedule."""
    shape = model_shape(model, 5, HIDDEN, 1, task_of("links").outputs(0, "", HIDDEN))
    work = Workload("w", statistics_of(sequence), shape, HYPER)
    schedule, context = strategy(name).plan(work, 1, UNUSED), Context()
    material = SnapshotMaterial(sequence, 5, weighted=shape.spatial == "gcn", task="links", hyper=HYPER)
    learner = Learner(SnapshotModel(shape, 4), context)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
    made = (learner, HYPER, context)
    program = CellProgram(schedule, WholeRegion(material), *made) if name == "esdg" else SnapshotProgram(schedule, material, *made)
    losses = [execute(schedule, program, CpuLanes(False), "cpu").losses for _ in range(epochs)]
    return np.concatenate(losses), weights(learner.model), schedule, material


@pytest.mark.parametrize("model", ["t-gcn", "evolvegcn-o"])
@pytest.mark.parametrize("name", ["psg", "esdg", "real-type1"])
def test_every_epoch_has_negatives_of_its_own(name, model):
    """Three epochs against dense matrices in float64; a snapshot without edges is among those that are predicted."""
    losses, result, schedule, material = trained(name, model, GRAPHS, 3)
    shape = model_shape(model, 5, HIDDEN, 1, 2 * HIDDEN)
    pairs, steps, expected = pairs_of(), iterations_of(schedule), []
    oracle = DenseTrainer(GRAPHS, material.features(0), SnapshotModel(shape, 4), HYPER)
    for epoch in range(3):
        oracle.pairs = lambda t, epoch=epoch: pairs.training(t, epoch)
        expected.append(oracle.losses(steps))
    np.testing.assert_allclose(losses, np.concatenate(expected), rtol=1e-4, atol=1e-7)
    assert apart(result, weights(oracle.model), SnapshotModel(shape, 4)) < 1e-3
    assert model == "evolvegcn-o" or 0 in losses


def brute_force_mrr(positive: np.ndarray, negative: np.ndarray) -> float:
    """Of equal scores halfway between the best and the worst place."""
    places = []
    for one, others in zip(positive.tolist(), negative.tolist(), strict=True):
        there = [other for other in others if other is not None and other > -np.inf]
        if there:
            places.append(1 + sum(other > one for other in there) + sum(other == one for other in there) / 2)
    return float(np.mean([1 / place for place in places]))


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("kind", [GroupEvaluation, RunningEvaluation])
def test_scores_are_those_of_dense_matrices(kind, part):
    """AP and AUC as scikit-learn has them, MRR by brute force, of each snapshot with edges by itself, and their means."""
    shape = model_shape("wd-gcn", 5, HIDDEN, 2, 2 * HIDDEN)
    net, material = SnapshotModel(shape, 4), SnapshotMaterial(GRAPHS, 5, task="links", hyper=HYPER)
    net.readout.weight.data *= 10  # scores far enough apart for float32 to order them
    oracle, snapshots = DenseTrainer(GRAPHS, material.features(0), net, HYPER), getattr(SPLIT, part)
    expected = []
    for goal in snapshots:
        rows = pairs_of().evaluated(goal)
        if not len(rows):
            continue
        with torch.no_grad():
            begin = goal - HYPER.group_size if kind is GroupEvaluation else 0
            predicted = oracle.model.readout(oracle.outputs(range(begin, goal))[-1])
        matrix = (predicted[:, :HIDDEN] @ predicted[:, HIDDEN:].T).numpy()
        score = np.where(rows[:, 1:] >= 0, matrix[rows[:, :1], rows[:, 1:]], -np.inf)
        labels, flat = np.repeat([1, 0], len(rows)), score[:, :2].T.ravel()
        there = np.isfinite(flat)
        ap, auc = (metric(labels[there], flat[there]) for metric in (average_precision_score, roc_auc_score))
        expected.append((ap, auc, brute_force_mrr(score[:, 0], score[:, 2:])))
    assert len(expected) == len(snapshots) - (EMPTY[1] in snapshots)
    result = kind(material, HYPER, Context()).scores(net, snapshots)
    assert result == pytest.approx(dict(zip(("ap", "auc", "mrr"), np.mean(expected, 0), strict=True)), rel=1e-6)


def test_predictions_that_are_not_finite_have_no_score():
    aim = objective_of(task_of("links"), GRAPHS, HYPER)
    predicted = torch.randn(NODES, 2 * HIDDEN)
    predicted[3] = torch.nan
    sums = sum(aim.sums(predicted, torch.from_numpy(aim.truth(t))) for t in SPLIT.test)
    assert all(np.isnan(value) for value in aim.scores(sums).values())
    assert aim.scores(torch.zeros(aim.terms)) == {}


def by_loops(name: str, part: range, horizon: int, half_life: float) -> dict[str, float]:
    """Scores of a rival over the snapshots of a part, by sets of edges and counts over snapshots, `horizon` before and earlier."""
    pairs = [list(zip(s.src.tolist(), s.dst.tolist(), strict=True)) for s in GRAPHS]

    def score(t: int, source: int, end: int) -> float:
        known = pairs[: t - horizon + 1]
        when = [at for at, edges in enumerate(known) if (source, end) in edges]
        last = max(at for at, edges in enumerate(known) if edges)
        fading = [0.5 ** ((last + 1 - at) / half_life) for at, edges in enumerate(known) for _, other in edges if other == end]
        degrees = [sum((a == node) + (b == node) for edges in known for a, b in edges) for node in (source, end)]
        return {
            "edges of the last snapshot": float(last in when),
            "EdgeBank": float(bool(when)),
            "times the pair was there": float(len(when)),
            "popularity of late": sum(fading),
            "seen pair then popularity of late": 1e6 * bool(when) + sum(fading),
            "preferential attachment": float(degrees[0] * degrees[1]),
        }[name]

    expected = []
    for t in part:
        rows = pairs_of().evaluated(t)
        if len(rows):
            scores = np.array([[-np.inf if end < 0 else score(t, row[0], end) for end in row[1:]] for row in rows.tolist()])
            flat = scores[:, :2].T.ravel().round(9)  # sums in another order are no order
            ap = average_precision_score(np.repeat([1, 0], len(rows)), flat)
            mrr = brute_force_mrr(scores[:, 0].round(9), scores[:, 2:].round(9))
            expected.append((ap, roc_auc_score(np.repeat([1, 0], len(rows)), flat), mrr))
    return dict(zip(("ap", "auc", "mrr"), np.mean(expected, 0).tolist(), strict=True))


def half_life_of(rival: RivalScores) -> float:
    """What a rival says that its half-life is, in snapshots."""
    number = re.search(r"after (\S+) snapshot", rival.meaning)
    return float(number[1]) if number else math.inf


@pytest.mark.parametrize("horizon", [1, 2])
def test_predictions_without_a_model(horizon):
    scored = objective_of(task_of("links"), GRAPHS, HYPER).rivals(SPLIT, SPLIT.test, horizon)
    result = {one.name: one for one in scored}
    for name in ("edges of the last snapshot", "EdgeBank", "times the pair was there", *list(result)[3:7:2], "preferential attachment"):
        assert result[name].scores == pytest.approx(by_loops(name, SPLIT.test, horizon, half_life_of(result[name]))), name
    assert [*result][:3] == ["edges of the last snapshot", "EdgeBank", "times the pair was there"] and len(result) == 8
    assert all(set(one.scores) == {"ap", "auc", "mrr"} for one in scored)


def test_half_lives_are_those_that_validate_best():
    """Whatever the test says of them."""
    result = {one.name: half_life_of(one) for one in objective_of(task_of("links"), GRAPHS, HYPER).rivals(SPLIT, SPLIT.test, 1)}
    tested = []
    for name in ("popularity of late", "seen pair then popularity of late"):
        periods = SPLIT.validation, SPLIT.test
        validated, test = ({each: by_loops(name, part, 1, each)["ap"] for each in (1, 0.5, 2, 4, 8, math.inf)} for part in periods)
        best = max(validated.values())
        assert result[name] == next(each for each, ap in validated.items() if ap == pytest.approx(best, rel=1e-12)), validated
        tested.append(test[result[name]] < max(test.values()))
    assert any(tested), "the best of the validation is the best of the test"


def test_nothing_to_learn_from_or_to_score():
    with pytest.raises(UserError, match="dataset 'drawn' has no edge in training's snapshots"):
        pairs_of(graphs(empty=tuple(SPLIT.training)))
    aim = objective_of(task_of("links"), graphs(empty=tuple(SPLIT.test)), HYPER)
    assert aim.scores(sum(aim.sums(torch.randn(NODES, 4), torch.from_numpy(aim.truth(t))) for t in SPLIT.test)) == {}
    assert all(one.scores == {} for one in aim.rivals(SPLIT, SPLIT.test, 1))
    with pytest.raises(UserError, match=r"training\.ranked: expected 1\.\.\d+ negatives an edge, got 0"):
        LinkProtocol(0)


@pytest.mark.parametrize("name", ["dynagraph", "dynahb", "dgc"])
def test_what_does_not_gather_nodes_refuses(name):
    planner = strategy(name)
    assert "does not gather the nodes of a snapshot, and training.task: 'links' needs both ends of every edge" in planner.refuses(HYPER)
    assert not planner.refuses(Hyper())


def test_who_takes_links():
    takes = {name for name, planner in registry.of("snapshots").items() if not planner.refuses(HYPER)}
    assert {"psg", "blad", "real-g+", "real-l", "esdg", "distdgl", "flaredtdg", "recent-states"} <= takes
    published = replace(HYPER, variant="as-published")
    assert "variant: as-published, a loss of each rank's own nodes" in strategy("flaredtdg").refuses(published)
    assert not strategy("psg").refuses(published)


@pytest.mark.parametrize("model", ["wd-gcn", "evolvegcn-o"])
def test_plans_count_pairs(model):
    """Targets of every strategy that takes whole snapshots, by hand; its memory and its operations have the pairs in."""
    shape = model_shape(model, 5, HIDDEN, 1, 2 * HIDDEN)
    assert shape.parameters - model_shape(model, 5, HIDDEN, 1, 1).parameters == (2 * HIDDEN - 1) * (HIDDEN + 1)
    plain = Workload("w", statistics_of(GRAPHS), shape, replace(HYPER, task="in-degree"))
    work = replace(plain, hyper=HYPER)
    edges = [s.num_edges for s in GRAPHS]
    goals = [g + s + 1 for g in range(work.groups) for s in (range(2) if shape.predicts_each else [1])]
    for name in ("psg", "blad", "real-reuse", "esdg"):
        schedule, other = (strategy(name).plan(one, 1, UNUSED) for one in (work, plain))
        counted = strategy(name).trained_work(work, schedule)
        assert counted.targets == 2 * sum(edges[goal] for goal in goals)
        pairs = 2 * sum(edges[goal] for goal in set(goals))
        assert schedule.resident - other.resident == 8 * pairs + 16 * 2 * max(edges[goal] for goal in goals)
        more = sum(3 * (2 * NODES * HIDDEN * 2 * HIDDEN + 2 * edges[goal] * 2 * HIDDEN) for goal in goals)
        assert schedule.flops.sum() - other.flops.sum() == more
