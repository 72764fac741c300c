"""DynaGraph executed on 1, 2 and 4 ranks: losses and weights of dense matrices of the drawn edges; what moves is what was planned."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from queue import SimpleQueue
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from dense_trainer import DenseTrainer, apart, weights
from pairwise import fast
from rival_cases import CASES, COSTS, EPOCHS, GRAPHS, INPUTS, NODES, RANKS, SEED, Case, learner_of

from chronoscale.batching.snapshots.sampling import NeighbourSampling
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots.evaluation import GroupEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.sampled.program import SampledProgram
from chronoscale.real_exec.snapshots.sampled.share import EpochShare
from chronoscale.real_exec.snapshots.scoring import window_splits
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.baselines.snapshots.dynagraph import sampling_of
from chronoscale.strategies.flaredtdg.strategy import FULL_HISTORY
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op


def sampled(case: Case, epoch: int) -> list[torch.Tensor]:
    """Normalised adjacency of what an epoch draws, by its definition: [v, u] of u -> v, of v's d in-neighbours k count d / k times."""
    result, drawn = [], sampling_of(case.hyper, epoch)
    for t, snapshot in enumerate(GRAPHS):
        into, out = np.zeros(NODES), np.zeros(NODES)
        for u, v in zip(snapshot.src, snapshot.dst, strict=True):
            into[v] += 1
            out[u] += 1
        matrix = np.diag(1 / np.sqrt((into + 1) * (out + 1)))
        for u, v, remaining in zip(snapshot.src, snapshot.dst, drawn.edge_mask(snapshot, t), strict=True):
            if remaining:
                matrix[v, u] = into[v] / min(into[v], case.fanout) / np.sqrt((into[v] + 1) * (out[u] + 1))
        result.append(torch.from_numpy(matrix))
    return result


@cache
def oracle(case: Case, epochs: int = EPOCHS):
    """Losses [epochs, windows] and weights: every window from the zero state."""
    features = None if case.task == "degrees" else SnapshotMaterial(GRAPHS, INPUTS).features(0)
    trainer = DenseTrainer(GRAPHS, features, SnapshotModel(case.shape, SEED), case.hyper)
    losses = []
    for epoch in range(epochs):
        trainer.normal = sampled(case, epoch)
        losses.append([])
        for first in range(len(GRAPHS) - case.window):
            window = range(first, first + case.window)
            outputs = trainer.outputs(window)
            steps = range(case.window) if case.shape.evolves_weights else [case.window - 1]
            loss = sum(trainer.error(trainer.model.readout(outputs[s]), window[s] + 1) for s in steps) / len(steps)
            trainer.optimizer.zero_grad()
            loss.backward()
            trainer.optimizer.step()
            losses[-1].append(loss.item())
    return np.array(losses), weights(trainer.model)


@pytest.mark.parametrize("ranks", fast(RANKS, lambda _, ranks: ranks < 4))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_losses_are_the_oracles(rivals, case, ranks):
    expected, trained = oracle(case)
    for rank in range(ranks):
        result = json.loads((rivals / f"sampled-{ranks}-{rank}.json").read_text())[case.label]
        np.testing.assert_allclose(result["losses"], expected, rtol=1e-4)
        own = np.load(rivals / f"sampled-{ranks}-{rank}.npz")[case.label]
        assert apart(own, trained, SnapshotModel(case.shape, SEED)) < 1e-3
        assert result["equal"] and result["left"] == 0 and (result["exchanged"] > 0) == (ranks > 1)


def test_samples_change_from_epoch_to_epoch():
    case = CASES[1]
    assert not torch.equal(sampled(case, 0)[3], sampled(case, 1)[3])
    whole = Case("t-gcn", 1, "degrees", 1000)
    assert all(torch.equal(a, b) for a, b in zip(sampled(whole, 0), sampled(whole, 5), strict=True))


def program_of(case: Case):
    schedule = strategy("dynagraph").plan(case.workload(), 1, COSTS)
    material = SnapshotMaterial(GRAPHS, case.shape.inputs, task=case.task)
    return SampledProgram(schedule, material, Learner(SnapshotModel(case.shape, SEED), Context()), case.hyper, Context())


def test_a_pass_depends_on_its_number_alone():
    """As after a training that was cut off: epoch 2 of a new program is epoch 2 of one that has had two."""
    first, second = program_of(CASES[1]), program_of(CASES[1])
    losses = []
    for program, epochs in ((first, (0, 1, 2)), (second, (2,))):
        for epoch in epochs:
            program.epoch = epoch
            program.begin()
            for task in program.tasks:
                if task.op is not Op.OPTIMIZE:
                    program.run(task)
                else:
                    program.learner.clear()
                    program.grid.cells.clear()
            losses.append(program.finish().losses)
    assert losses[2] == losses[3] and losses[1] != losses[2]


class Post:
    """All ranks' messages, in one process of as many threads."""

    def __init__(self, ranks):
        self.boxes = {(by, to): SimpleQueue() for by in range(ranks) for to in range(ranks)}

    def all_to_all(self, rank, into, values, into_rows, rows):
        for to, part in enumerate(values.split(list(rows))):
            self.boxes[rank, to].put(part)
        parts = [self.boxes[by, rank].get(timeout=60) for by in range(len(rows))]
        assert [len(part) for part in parts] == list(into_rows)
        into.copy_(torch.cat(parts))


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_features_follow_their_nodes(ranks):
    """Epoch by epoch, also from the middle on: a rank has the features of its nodes, and took from others what it had not."""
    material, post = SnapshotMaterial(GRAPHS, 2, task="degrees"), Post(ranks)
    material.read(range(4))

    def dealt(rank):
        share = EpochShare(material, 4, rank, ranks, torch.device("cpu"))
        for epoch in (0, 1, 5, 6):
            share.begin(NeighbourSampling(3, 7, epoch))
            before, own = share._before.nodes(rank), share.layout.nodes(rank)
            size = share.deal(SimpleNamespace(all_to_all=partial(post.all_to_all, rank)))
            torch.testing.assert_close(share._features, torch.cat([material.features(t)[own] for t in range(4)], 1))
            assert size == len(set(own.tolist()) - set(before.tolist())) * 4 * 2 * 4

    with ThreadPoolExecutor(ranks) as pool:
        list(pool.map(dealt, range(ranks)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", ["t-gcn", "mpnn-lstm", "evolvegcn-o"])
def test_all_neighbours_drawn_is_full_history_that_inherits_nothing(model):
    """The same windows, of a sequence too short for two segments."""
    case = Case(model, 2, "degrees", 1000, window=6)
    work, material = case.workload(), SnapshotMaterial(GRAPHS, 2, task="degrees")
    schedules = [planner.plan(work, 1, COSTS) for planner in (strategy("dynagraph"), replace(FULL_HISTORY, inherits=False))]
    learners = [learner_of(case, Context()) for _ in schedules]
    sampled = SampledProgram(schedules[0], material, learners[0], case.hyper, Context())
    whole = WindowProgram(schedules[1], material, work.chunking.chunks, learners[1], case.hyper, Context())
    for _ in range(2):
        result, expected = (execute(*each, CpuLanes(False), "cpu").losses for each in zip(schedules, (sampled, whole), strict=True))
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_windows_are_judged_from_the_zero_state():
    case = replace(CASES[0], window=2)
    material = SnapshotMaterial(GRAPHS, 2, task="degrees")
    held = replace(case.hyper, held=replace(case.hyper.held, test=0.2))
    judge = window_splits(material, held, Context(), strategy("dynagraph").plan(case.workload(), 1, COSTS))
    model = SnapshotModel(case.shape, SEED)
    grouped = GroupEvaluation(material, replace(held, group_size=2), Context())
    assert judge.test == range(9, 11) and judge.test_scores(model) == grouped.scores(model, range(9, 11))


def test_rows_of_two_windows():
    """One rank, one layer, three snapshots to read: the second window samples, sends and aggregates its newest snapshot alone."""
    case = Case("t-gcn", 1, "degrees", 3, window=2)
    schedule = strategy("dynagraph").plan(replace(case.workload(), stats=statistics_of(GRAPHS.head(4))), 1, COSTS)
    reported = [(Op(o).name, int(i), int(s)) for o, i, s in zip(schedule.op, schedule.iteration, schedule.step, strict=True)]
    compute = [("TRANSFORM", 0), ("TEMPORAL", 0), ("TRANSFORM", 1), ("TEMPORAL", 1), ("BACKWARD", 1), ("BACKWARD", 0), ("OPTIMIZE", -1)]
    bring = [("SAMPLE", 0), ("H2D", 0), ("SAMPLE", 1), ("H2D", 1)]
    first = [*bring, ("AGGREGATE", 0), *compute[:2], ("AGGREGATE", 1), *compute[2:]]
    second = [*bring[2:], *compute[:2], ("AGGREGATE", 1), *compute[2:]]
    assert reported == [(op, 0, step) for op, step in first] + [(op, 1, step) for op, step in second]


@pytest.mark.parametrize("ranks", [1, 2, 3, 64])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_plans_balance_and_ranks_agree(case, ranks):
    """Memory comes back; no row of one rank waits for another's but in collectives; each has all ranks."""
    schedule = strategy("dynagraph").plan(case.workload(), ranks, COSTS)
    taken, arguments = (np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free))
    np.testing.assert_array_equal(taken, arguments)
    owner = np.repeat(schedule.rank, np.diff(schedule.dep_ptr))
    assert (schedule.rank[schedule.dep] == owner).all()
    _, together = np.unique(schedule.collective[schedule.collective >= 0], return_counts=True)
    assert (together == ranks).all() and (len(together) > 0) == (ranks > 1)
    assert (schedule.lane[schedule.op == Op.SAMPLE] == Lane.HOST).all()
    edges = [sampling_of(case.hyper).edge_mask(s, t).sum() for t, s in enumerate(GRAPHS)][: len(GRAPHS) - 1]
    assert schedule.edges[(schedule.op == Op.AGGREGATE) & (schedule.layer == 0)].sum() == sum(edges) + len(edges) * NODES


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("evolvegcn-h", 1, "degrees", 3), "model 'evolvegcn-h' reads all features in every step"),
        (Case("gat-lstm", 1, "degrees", 3), "model 'gat-lstm' attends"),
        (Case("t-gcn", 1, "degrees", 3, window=11), r"training.full \+ training.decayed: a window of 11 \+ 0 snapshots, and 'w' has 10"),
        (Case("t-gcn", 1, "degrees", 0), "fanout must be at least 1 neighbour a node, got 0"),
    ],
)
def test_mistakes(case, said):
    with pytest.raises(UserError, match=said):
        strategy("dynagraph").plan(case.workload(), 2, COSTS)


def test_one_fanout_for_all_layers():
    work = CASES[0].workload()
    with pytest.raises(UserError, match="expected one number, got 10, 5"):
        strategy("dynagraph").plan(replace(work, hyper=replace(work.hyper, fanout=(10, 5))), 2, COSTS)
    assert sampling_of(replace(work.hyper, fanout=())).fanout == 10 and sampling_of(replace(work.hyper, fanout=(4, 4))).fanout == 4
    with pytest.raises(UserError, match="needs its graphs' degrees"):
        strategy("dynagraph").plan(replace(work, chunking=None), 2, COSTS)
