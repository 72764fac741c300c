"""Training on events: one rank against an oracle that goes event by event, strategies against each other."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from pairwise import fast, pairwise
from rank_cases import parameters, run_on_ranks
from stream_case import MODELS, choice, hyper, one_pass, planned, prepared, program, stream, unix_stream
from stream_oracle import StreamOracle
from stream_ranks import LOADING, MERGED, run

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.cuda_ext.native.backend import backends
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.strategies.streams.models import STREAM_MODELS
from chronoscale.strategies.workload import EventHyper

NAMES = ("sequential", "tgl", "tgl-unique")


def oracle_of(folder, model, given, made):
    """With the parameters that the program begins with."""
    events = PreparedStream.load(folder).whole.stream
    features = made.material.node_features
    start = deepcopy(made.learner.model)
    return StreamOracle(
        start,
        *(np.array(column) for column in (events.src, events.dst, events.t)),
        events.num_nodes,
        lambda parameters: torch.optim.SGD(parameters, 0.05),
        list(given.fanout) * 2,
        edge=None if events.features is None else np.array(events.features),
        features=features,
        duration=given.events.duration,
    )


def batches(deal):
    return [(whole.start, whole.stop) for whole in map(deal.all_events, range(deal.iterations))]


@pytest.mark.parametrize("model", [name for name in MODELS if STREAM_MODELS[name].memory])
def test_a_probe_finds_every_node_heard_of(tmp_path, model):
    """An epoch finds none."""
    folder, chosen = prepared(tmp_path, stream()), choice(model)
    for every in (1, 3):
        arguments = hyper(model, events=EventHyper(every=every))
        built = program(folder, planned(folder, chosen, arguments), chosen, arguments)
        for built.epoch in (0, 1):
            built.begin()
            pending, _ = built.state.read(torch.arange(9))
            assert bool(pending.there.all()) is bool(pending.there.any()) is (every > 1)
            assert bool(built.state.memory.any()) is bool(built.state.mail.any()) is (every > 1)


@pytest.mark.parametrize("model", ["tgn", "tgat", "dysat", "apan", "graphmixer"])
def test_what_dropout_leaves_out_follows_from_the_epoch(tmp_path, monkeypatch, model):
    """Other weights in every epoch; in a run that goes on from an epoch those that it would have left out."""
    folder, chosen, given = prepared(tmp_path, stream()), choice(model, dropout=0.5), hyper(model)
    schedule = planned(folder, chosen, given)
    drawn, real = [], torch.nn.functional.dropout

    def dropout(values, *given):
        drawn.append(real(torch.ones_like(values), *given).bool())
        return values * drawn[-1] * 2

    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)

    def masks(made):
        drawn.clear()
        execute(schedule, made, CpuLanes(False), "cpu")
        return torch.cat([mask.flatten() for mask in drawn])

    once = program(folder, schedule, chosen, given)
    first, second = masks(once), masks(once)
    again = program(folder, schedule, chosen, given)
    again.epoch = 1
    assert torch.equal(masks(again), second)
    again.epoch = 0
    assert torch.equal(masks(again), first)
    count = min(len(first), len(second))
    assert 0.3 < (first[:count] != second[:count]).float().mean() < 0.7, "masks are not independent"


@pytest.mark.parametrize(("model", "meanwhile"), [("tgn", 1), ("dysat", 2)])
def test_torch_has_its_threads_again_after_an_epoch(tmp_path, model, meanwhile):
    folder, chosen, arguments = prepared(tmp_path, stream()), choice(model), hyper(model)
    before, seen = torch.get_num_threads(), set()
    schedule = planned(folder, chosen, arguments)
    torch.set_num_threads(2)
    try:
        built = program(folder, schedule, chosen, arguments, Context(Settings(threads=2)))
        run = built.run
        built.run = lambda task: (seen.add(torch.get_num_threads()), run(task))
        execute(schedule, built, CpuLanes(False), "cpu")
        assert seen == {meanwhile if "cpu" in backends() else 2} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


CASES = [
    *((model, layers, name, "gaps") for model in MODELS for layers in STREAM_MODELS[model].depths for name in NAMES),
    *((model, 2, "tgl-unique", clock) for model in ("tgn", "tgat") for clock in ("linear", "log", "both")),
    *(("graphmixer", 1, "tgl-unique", clock) for clock in ("linear", "log", "both")),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("model", "layers", "name", "clock"), pairwise(CASES))
def test_an_epoch_is_the_oracles(tmp_path, model, layers, name, clock):
    """In unix seconds, but for clocks whose phases are beyond float32 there."""
    events, duration = (stream(), 6.0) if clock in ("linear", "both") else (unix_stream(), 2e6)
    folder, arguments, chosen = prepared(tmp_path, events), hyper(model, duration=duration), choice(model, layers=layers, clock=clock)
    schedule = planned(folder, chosen, arguments, name)
    built = program(folder, schedule, chosen, arguments)
    oracle = oracle_of(folder, model, arguments, built)
    done = execute(schedule, built, CpuLanes(False), "cpu")
    data = built.data
    drawn = data.negatives_of_training(range(data.training_events), 0, 0)[:, 0]
    losses = oracle.train(batches(built.deals[0]), drawn)
    np.testing.assert_allclose(done.losses, losses, rtol=1e-4)
    fixed = data.negatives("validation").dst
    for first, last in batches(built.deals[1]):
        at = slice(first - data.split.validation.start, last - data.split.validation.start)
        logits = oracle.logits(first, last, np.maximum(fixed[at], 0)).detach().numpy()
        oracle.write(first, last)
        np.testing.assert_allclose(built._predictions._logits[at].numpy(), logits, atol=1e-4)
    if built.material.shape.memory:
        memory, updated, mail, mailed = oracle.tables()
        np.testing.assert_allclose(built.state.memory, memory, atol=1e-4)
        np.testing.assert_allclose(built.state.mail, mail, atol=1e-4)
        assert (built.state.updated.numpy() == updated).all() and (built.state.mailed.numpy() == mailed).all()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["tgn", "apan", "dysat"])
def test_a_second_thread_changes_no_bit(tmp_path, model, name):
    folder = prepared(tmp_path, unix_stream())
    (first, single), (other, beside) = (one_pass(folder, model, name, threaded) for threaded in (False, True))
    assert (single.losses == beside.losses).all() and single.scores == beside.scores
    for table, same in zip(first.state.tables().values(), other.state.tables().values(), strict=True):
        assert torch.equal(table, same)


SPREAD = [(model, count) for model in MODELS for count in (2, 4)]
WAYS = [(MERGED[0] if name in MERGED else LOADING[0], name) for name in (*LOADING[1:], *MERGED[1:])]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, request):
    """What every rank ends with, by label of the case, number of ranks and rank: arrays by name."""
    folder = tmp_path_factory.mktemp("ranks")
    prepared(folder, unix_stream())
    labels = {1: set(), 2: set(), 4: set()}
    for call in parameters(request):
        if "count" in call:
            labels[1].add(call["model"])
            labels[call["count"]].add(call["model"])
        if "other" in call:
            labels[2] |= {f"{call[name]},loading" for name in ("one", "other")}
    run(folder, 0, 1, labels.pop(1))
    run_on_ranks("stream_ranks", folder, {count: sorted(models) for count, models in labels.items()})
    result = sorted(folder.glob("*-*-*.npz"))
    return {tuple(path.stem.rsplit("-", 2)): dict(np.load(path)) for path in result}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "count"), fast(SPREAD, lambda _, run: run[1] == 2))
def test_ranks_are_one_with_a_larger_batch(ranks, model, count):
    """Rounding may turn two neighbours of a ranking round."""
    single = ranks[model, "1", "0"]
    for rank in range(count):
        first = ranks[model, str(count), str(rank)]
        assert first.keys() == single.keys()
        for name, value in first.items():
            atol = 0.02 if name.startswith("score ") else 1e-4
            np.testing.assert_allclose(value, single[name], atol=atol, err_msg=f"rank {rank}: {name}")


@pytest.mark.parametrize(("one", "other"), fast(WAYS, lambda _, ways: ways[1] in ("etc", "simple", "fast", "fast-merged")))
def test_on_two_ranks_every_way_to_load_ends_with_the_same_bits(ranks, one, other):
    for rank in ("0", "1"):
        first, second = (ranks[f"{name},loading", "2", rank] for name in (one, other))
        assert first.keys() == second.keys() and all((first[key] == second[key]).all() for key in first)
