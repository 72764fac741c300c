"""DynaHB executed on 1, 2 and 4 ranks, each alone on its batches: an oracle on whole dense graphs that averages by the formula."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, weights
from pairwise import fast
from rival_cases import CASES, COSTS, GRAPHS, INPUTS, NODES, RANKS, SEED, Case, learner_of

from chronoscale.batching.snapshots.chunks import ExpectedChunking
from chronoscale.batching.snapshots.receptive_field import WindowBatches
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError
from chronoscale.real_exec.communication.collective import SingleRankCollective
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import NonFiniteValue
from chronoscale.real_exec.snapshots.hybrid.agent import EVERY, Agent, state_of
from chronoscale.real_exec.snapshots.hybrid.averaging import Averaging
from chronoscale.real_exec.snapshots.hybrid.program import HybridProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.strategies.baselines.snapshots.dynahb import TOLD, BatchSize, first_batch, iterations_per_epoch, largest_batch
from chronoscale.strategies.registry import executable, strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op


def oracle(case, ranks, choices):
    """Losses [epochs, iterations], means over ranks, and the weights at the end, of batches of these sizes."""
    features = None if case.task == "degrees" else SnapshotMaterial(GRAPHS, INPUTS).features(0)
    trainer = DenseTrainer(GRAPHS, features, SnapshotModel(case.shape, SEED), case.hyper)
    model, losses = trainer.model, []
    own = [np.flatnonzero(np.arange(NODES) % 4 * ranks // 4 == rank) for rank in range(ranks)]
    vector = torch.nn.utils.parameters_to_vector
    for epoch, sizes in enumerate(choices):
        x = [vector(model.parameters()).detach().clone()] * ranks
        mean = x[0]  # of the iteration before
        losses.append([])
        for iteration, (window, vertices) in enumerate(sizes):
            y, total = [], 0.0
            for rank in range(ranks):
                torch.nn.utils.vector_to_parameters(x[rank].clone(), model.parameters())
                first, nodes = WindowBatches(7, epoch).draw(own[rank], len(GRAPHS) - 1, window, vertices, iteration, rank)
                outputs = trainer.outputs(range(first, first + window))
                steps = range(window) if case.shape.evolves_weights else [window - 1]
                errors = [
                    (model.readout(outputs[s])[nodes] - trainer.target[first + s + 1][nodes, : case.shape.outputs]).square().mean()
                    for s in steps
                ]
                loss = sum(errors) / len(errors)
                gradient = torch.autograd.grad(loss, list(model.parameters()))
                y.append(x[rank] - RATE * vector(gradient))
                total += loss.item() / ranks
            x = [mean + (after - before) for after, before in zip(y, x, strict=True)]
            mean = sum(y) / ranks
            losses[-1].append(total)
        torch.nn.utils.vector_to_parameters(mean.clone(), model.parameters())
    return np.array(losses), weights(model)


@pytest.mark.sample(2)
@pytest.mark.parametrize("ranks", fast(RANKS, lambda _, ranks: ranks < 4))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_losses_are_the_oracles(rivals, case, ranks):
    results = [json.loads((rivals / f"hybrid-{ranks}-{rank}.json").read_text())[case.label] for rank in range(ranks)]
    expected, trained = oracle(case, ranks, results[0]["choices"])
    for rank, each in enumerate(results):
        assert each["equal"] and each["left"] == 0 and each["choices"] == results[0]["choices"]
        np.testing.assert_allclose(each["losses"], expected, rtol=1e-4)
        assert apart(np.load(rivals / f"hybrid-{ranks}-{rank}.npz")[case.label], trained, SnapshotModel(case.shape, SEED)) < 1e-3


def test_sizes_change_and_are_the_same_in_every_run(rivals):
    """Nothing in them comes from a clock; an epoch begins with the last one's. They stay as planned where nothing is to adapt."""
    result = json.loads((rivals / "hybrid-1-0.json").read_text())
    assert len({tuple(size) for each in result.values() for epoch in each["choices"] for size in epoch}) > 4
    assert all(each["choices"][0][:2] == [each["choices"][0][0]] * 2 for each in result.values())
    case, losses = CASES[1], []
    for _ in range(2):
        program, schedule = program_of(case)
        program.adapts = True
        losses.append([])
        for task in program_begun(program):
            program.run(task)
        losses[-1] = program.finish().losses
    assert losses[0] == losses[1] and len(losses[0]) == schedule.iterations
    np.testing.assert_allclose(list(losses[0].values()), result[case.label]["losses"][0], rtol=1e-6)


def test_batches_are_as_planned_where_nothing_is_to_adapt():
    program, _ = program_of(CASES[1])
    for _ in range(2):
        for task in program_begun(program):
            program.run(task)
        assert len(program.finish().losses) > EVERY and len(set(program.choices.values())) == 1


def program_begun(program):
    program.begin()
    return program.tasks


def program_of(case, **changes):
    work = replace(case.workload(), hyper=replace(case.hyper, **changes))
    schedule = strategy("dynahb").plan(work, 1, COSTS)
    material = SnapshotMaterial(GRAPHS, case.shape.inputs, task=case.task)
    return HybridProgram(schedule, material, work.chunking.chunks, learner_of(case, Context()), work.hyper, Context()), schedule


class Together(SingleRankCollective):
    """Ranks in one process: sums are what a test has added up."""

    def __init__(self, ranks):
        self.ranks = ranks


def test_every_step_is_in_the_mean_once():
    """Whatever ranks do: after n iterations the mean is the start and 1/P of every rank's every step."""
    ranks, shape, draw = 3, CASES[0].shape, torch.Generator().manual_seed(0)
    models = [SnapshotModel(shape, 1) for _ in range(ranks)]
    each = [Averaging(model, Together(ranks)) for model in models]
    begun = weights(models[0])
    for item in each:
        item.begin(torch.zeros(TOLD))
    total = 0.0
    for iteration in range(6):
        steps = [torch.randn(len(begun), generator=draw) for _ in range(ranks)]
        for model, item, step in zip(models, each, steps, strict=True):
            before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()

            def move(model=model, before=before, step=step):
                torch.nn.utils.vector_to_parameters(before + step, model.parameters())

            item.step(move, lambda arrived, number=iteration: torch.ones(TOLD) * number)
        total += sum(steps).double().numpy() / ranks
        summed = sum(item._message for item in each)
        for item in each:
            item._arrived = summed.clone()
        assert summed[-1] == ranks * iteration
        np.testing.assert_allclose(summed[: len(begun)], begun + total, rtol=1e-4, atol=1e-5)
    for model, item in zip(models, each, strict=True):
        item.take_up()
        np.testing.assert_allclose(weights(model), begun + total, rtol=1e-4, atol=1e-5)


def test_one_rank_alone_is_its_optimiser():
    model, plain = SnapshotModel(CASES[0].shape, 1), SnapshotModel(CASES[0].shape, 1)
    averaging, optimisers = Averaging(model, SingleRankCollective()), [torch.optim.Adam(m.parameters()) for m in (model, plain)]
    averaging.begin(torch.zeros(TOLD))
    for _ in range(3):
        for m in (model, plain):
            for p in m.parameters():
                p.grad = torch.ones_like(p)
        averaging.step(optimisers[0].step, lambda arrived: arrived)
        optimisers[1].step()
    assert (weights(model) == weights(plain)).all()


def test_the_agent_learns_what_pays():
    """Where smaller windows alone bring losses down, it ends up choosing them; from 1 to 0.1 it explores ever less."""
    limit = BatchSize(8, 64)
    agent, taken = Agent(limit, limit, seed=3), []
    loss = 1.0
    for _ in range(EVERY * 1500):
        loss *= 0.99 if agent.choice.window == 1 else 1.0
        before = agent.choice
        agent.next_choice(loss, 0)
        taken.append(agent.choice)
        if agent.choice != before:
            assert all(
                new in (old // 2 or 1, old, min(2 * old, top))
                for new, old, top in zip(
                    (agent.choice.window, agent.choice.vertices), (before.window, before.vertices), (8, 64), strict=True
                )
            )
        loss = 1.0 if loss < 1e-6 else loss
    assert agent.explores == 0.1 and all(1 <= each.window <= 8 and 1 <= each.vertices <= 64 for each in taken)
    late = [each.window == 1 for each in taken[len(taken) // 2 :]]
    assert np.mean(late) > np.mean([each.window == 1 for each in taken[: 200 * EVERY]]) > 0


def test_rewards_by_hand():
    agent = Agent(BatchSize(4, 16), BatchSize(4, 16), seed=0, timed=True)
    for _ in range(EVERY):
        agent.next_choice(2.0, 100)
    action = agent._last[1]
    for _ in range(EVERY):
        agent.next_choice(1.0, 50)
    assert agent.values[1, action] == pytest.approx(0.1 * (0.5 + 0.5)) and np.count_nonzero(agent.values) == 1
    assert agent.explores == pytest.approx(0.98**2) and agent._last[0] == 0
    assert [state_of(1.0, loss) for loss in (0.98, 0.995, 1.005, 1.02)] == [0, 1, 1, 2] and state_of(0.0, 0.0) == 1
    untimed = Agent(BatchSize(4, 16), BatchSize(4, 16), seed=0)
    for ns in (100, 1):
        for _ in range(EVERY):
            untimed.next_choice(2.0, ns)
    assert not untimed.values.any()


def test_sizes_of_batches():
    hyper = CASES[0].hyper
    assert (
        largest_batch(hyper, 10, 60) == BatchSize(2, 64)
        and largest_batch(hyper, 1, 1) == BatchSize(1, 1)
        and largest_batch(hyper, 10, 0) == BatchSize(1 << 1, 1)
    )
    assert first_batch(BatchSize(8, 64)) == BatchSize(8, 16) and first_batch(BatchSize(1, 2)) == BatchSize(1, 1)
    assert iterations_per_epoch(BatchSize(2, 16), 10, 60) == 5 * 4 and iterations_per_epoch(BatchSize(8, 16), 10, 0) == 2


@pytest.mark.parametrize("ranks", fast([1, 2, 3, 4], lambda _, ranks: ranks in (1, 3)))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_plans(case, ranks):
    """Nothing but parameters crosses ranks; an iteration waits for the sum of the one before the last, no other rank's step; memory comes
    back; the cache is what all batches could ask for."""
    schedule = strategy("dynahb").plan(case.workload(), ranks, COSTS)
    taken, arguments = (np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free))
    np.testing.assert_array_equal(taken, arguments)
    assert {Op(op) for op in np.unique(schedule.op)} & COLLECTIVES == ({Op.ALLREDUCE} if ranks > 1 else set())
    assert (schedule.bytes[schedule.op == Op.ALLREDUCE] == (case.shape.parameters + TOLD) * 4).all()
    place = {(Op(o), int(r), int(i)): t for t, (o, r, i) in enumerate(zip(schedule.op, schedule.rank, schedule.iteration, strict=True))}
    for rank in range(ranks):
        for iteration in range(1, schedule.iterations):
            update = place[Op.OPTIMIZE, rank, iteration]
            waits = schedule.dependencies(update).tolist()
            assert waits == ([place[Op.ALLREDUCE, rank, iteration - 1]] if ranks > 1 else [])
    parts = np.arange(NODES) % 4 * ranks // 4
    there, read = [GRAPHS[t] for t in range(len(GRAPHS) - 1)], []
    for rank in range(ranks):
        rows = {v for v in range(NODES) if parts[v] == rank}
        for _ in range(case.layers - 1):
            rows |= {u for s in there for u, v in zip(s.src.tolist(), s.dst.tolist(), strict=True) if v in rows}
        each = [rows | {u for u, v in zip(s.src.tolist(), s.dst.tolist(), strict=True) if v in rows} for s in there]
        read.append(sum(map(len, each)) if case.task == "degrees" else len(set.union(*each)))
    assert schedule.host == max(read) * case.shape.inputs * 4 and "all batches are as large as the first" in schedule.note


@pytest.mark.parametrize("ranks", [1, 8, 1024])
def test_plans_from_counts(ranks):
    """Of streamed graphs, on many ranks; they balance, and a rank's share of inputs falls."""
    case = CASES[1]
    work = replace(case.workload(), chunking=ExpectedChunking.of(GRAPHS, 4))
    schedule = strategy("dynahb").plan(work, ranks, COSTS)
    assert schedule.kind == "hybrid" and "reckoned from counts" in schedule.note and schedule.alloc.sum() == schedule.free.sum()
    assert schedule.rows[schedule.op == Op.GATHER].max() <= NODES
    assert len(schedule) <= strategy("dynahb").rows(work, ranks)


def test_mistakes():
    work = CASES[0].workload()
    with pytest.raises(UserError, match=r"training\.chunks: 4 chunks cannot be shared by 5 ranks; ask for 5 or more"):
        strategy("dynahb").plan(work, 5, COSTS)
    long = replace(work, hyper=replace(work.hyper, recency=replace(work.hyper.recency, decay=Decay(2, 60))))
    with pytest.raises(UserError, match=rf"training\.full \+ training\.decayed: a window of 2 \+ 60 snapshots, and '{work.name}' has"):
        strategy("dynahb").plan(long, 1, COSTS)
    for model, message in (("gat-lstm", "attends"), ("evolvegcn-h", "reads all nodes in every step")):
        with pytest.raises(UserError, match=f"dynahb: model '{model}' {message}"):
            strategy("dynahb").plan(Case(model, 1, "degrees", 3).workload(), 1, COSTS)
    assert strategy("dynahb").plan(replace(work, chunking=None), 2, COSTS).kind == "modelled" and executable("dynahb").name == "dynahb"


def test_a_loss_that_is_not_finite_ends_all_ranks_at_the_end_of_the_pass():
    program, _ = program_of(CASES[0])
    program.begin()
    with torch.no_grad():
        next(program.learner.model.parameters()).fill_(math.nan)
    for task in program.tasks:
        program.run(task)
    with pytest.raises(NonFiniteValue, match=r"gradient|parameter"):
        program.check()
