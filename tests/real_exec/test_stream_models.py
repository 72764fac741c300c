"""Models of event streams against the oracle's equations, event by event; their sizes, work and gradients; what they must not read."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pairwise import pairwise
from stream_batches import CASES, EDGE, FANOUTS, FEATURES, HIDDEN, MEMORIES, NODES, RandomBatch, build, logits_of, shape_of, through
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.flop_counter import FlopCounterMode

from chronoscale.cuda_ext.native import cpp_operators
from chronoscale.cuda_ext.operators import encoding, gates, slots
from chronoscale.cuda_ext.reference import aggregation as reference
from chronoscale.errors import UserError
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.model import stream_model
from chronoscale.real_exec.streams.tree import Hop, Tree
from chronoscale.strategies.streams.models import CLOCKS, STREAM_MODELS, stream_shape
from chronoscale.strategies.streams.rows.work import embed_work, layer_work, score_work, update_work
from chronoscale.strategies.workload import ModelChoice


def named(of: object) -> str:
    return "-".join(map(str, of)) if isinstance(of, tuple) else str(of)


@pytest.mark.sample(24)
@pytest.mark.parametrize(("case", "edge", "features"), pairwise(product(CASES, (0, EDGE), (0, FEATURES))), ids=named)
def test_scores_and_gradients_are_the_oracles(case: tuple[str, int], edge: int, features: int) -> None:
    model = build(*case, features, edge)
    batch = RandomBatch(model)
    result, expected = logits_of(model, batch), batch.oracle.logits(batch.first, batch.last, batch.others)
    torch.testing.assert_close(result, expected)
    truth = torch.zeros_like(result)
    truth[:, 0] = 1
    for logits in (result, expected):
        binary_cross_entropy_with_logits(logits, truth).backward()
    for part, parameter in model.named_parameters():
        torch.testing.assert_close(
            parameter.grad, batch.oracle.p[part].grad, rtol=1e-6, atol=1e-9, msg=lambda text, part=part: f"{part}: {text}"
        )


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(case=st.sampled_from(CASES), seed=st.integers(0, 1000), batches=st.integers(0, 5))
def test_scores_are_the_oracles_on_any_stream(case: tuple[str, int], seed: int, batches: int) -> None:
    model = build(*case)
    batch = RandomBatch(model, seed, batches)
    torch.testing.assert_close(logits_of(model, batch), batch.oracle.logits(batch.first, batch.last, batch.others))


@pytest.mark.parametrize("name", MEMORIES)
def test_mails_are_the_oracles(name: str) -> None:
    model = build(name)
    batch = RandomBatch(model, batches=0, size=1)
    oracle = batch.oracle
    oracle.memory = {v: torch.from_numpy(batch.random.normal(size=HIDDEN)) for v in range(NODES)}
    oracle.logits(0, 1, batch.others)
    oracle.write(0, 1)
    edge = torch.from_numpy(batch.edge[:1])
    for own, other in ((oracle.src[0], oracle.dst[0]), (oracle.dst[0], oracle.src[0])):
        result = model.mail(oracle.memory[own][None], oracle.memory[other][None], edge)
        assert result.shape == (1, model.shape.mail) and torch.equal(result[0], oracle.boxes[own][-1][0])


@pytest.mark.parametrize("name", MEMORIES)
def test_a_node_without_mail_keeps_its_memory_bit_for_bit(name: str) -> None:
    pending = RandomBatch(build(name)).pending()
    memory = torch.randn(NODES, HIDDEN)
    pending = MemoryRows(memory, pending.mail.float(), pending.there, pending.elapsed.float(), pending.sent)
    single = ~pending.there.any(1)
    after = build(name).float().update(pending)
    assert single.any() and not single.all()
    assert torch.equal(after[single], memory[single]) and (after[~single] != memory[~single]).any(1).all()


@pytest.mark.parametrize(("name", "layers"), CASES)
def test_what_stands_in_empty_slots_changes_nothing(name: str, layers: int) -> None:
    results = []
    for garbage in (0.0, 1e6):
        model, batch = build(name, layers), RandomBatch(build(name, layers))
        batch.features = batch.features if batch.features is None else batch.features.copy()
        pending, trees = batch.pending(), batch.trees()
        filled = {count for tree in trees for hop in tree.hops for count in hop.there.sum(1).tolist()}
        assert not model.shape.layers or {0, 1} <= filled
        if model.shape.memory:
            for part in (pending.mail, pending.elapsed):
                part[~pending.there] = garbage
        for hop in (hop for tree in trees for hop in tree.hops):
            for values in (hop.elapsed, hop.edge):
                if values is not None:
                    values[~hop.there] = garbage
            hop.slot[~hop.there] = int(garbage > 0) * int(hop.slot.max())
        leaf = pending.memory.requires_grad_() if model.shape.memory else torch.from_numpy(batch.features).requires_grad_()
        rows = model.inputs(*((None, model.update(pending)) if model.shape.memory else (leaf, None)))
        result = through(model, rows, trees, batch.waited())
        result.square().sum().backward()
        results.append([result, leaf.grad, *(p.grad for p in model.parameters() if p.grad is not None)])
    for each, other in zip(*results, strict=True):
        assert torch.isfinite(each).all()
        torch.testing.assert_close(each, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["tgn", "dysat"])
def test_targets_do_not_see_each_other(name: str) -> None:
    model = build(name)
    batch = RandomBatch(model)
    tree, order = batch.trees()[0], torch.from_numpy(batch.random.permutation(len(batch.roots())))
    rows = torch.randn(NODES, model.shape.inputs).double()
    below = [rows[level] for level in tree.levels]
    hop = Hop(*(None if part is None else part[order] for part in tree.hops[0][:4]))
    mixed = model.layer(0, [below[0][order], below[1]], Tree([tree.levels[0][order], tree.levels[1]], [hop]))[0]
    torch.testing.assert_close(mixed, model.layer(0, below, tree)[0][order])


def test_a_target_without_neighbours_is_merged_with_zeros() -> None:
    model, own = build("tgat"), torch.randn(2, FEATURES).double()
    hop = Hop(torch.zeros(2, 3).long(), torch.zeros(2, 3).bool(), torch.rand(2, 3).double(), torch.randn(2, 3, EDGE).double())
    result = model.layer(0, [own, torch.randn(1, FEATURES).double()], Tree([torch.arange(2), torch.arange(1)], [hop]))[0]
    layer = model.layers[0]
    torch.testing.assert_close(result, layer.out(layer.merge(torch.cat([torch.zeros(2, HIDDEN).double(), own], 1)).relu()))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "layers"), CASES)
def test_gradients_are_those_of_differences(name: str, layers: int) -> None:
    model = build(name, layers, FEATURES, outputs=2)
    batch = RandomBatch(model, size=2)
    trees, waited = batch.trees(), batch.waited()
    pending = batch.pending() if model.shape.memory else None
    features, names = torch.from_numpy(batch.features).requires_grad_(), [name for name, _ in model.named_parameters()]

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
            rows = model.inputs(features, None if pending is None else model.update(pending))
            result = through(model, rows, trees, waited)
            scores = model.score(result[:2], result[2:6].view(2, 2, -1))
            return scores, model.classify(result) if model.shape.outputs else scores

    def run(features: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        state = {f"model.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Whole(), state, (features,))

    parameters = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    assert torch.autograd.gradcheck(run, (features, *parameters), fast_mode=True)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("outputs", [0, 3])
@pytest.mark.parametrize(("features", "edge"), [(0, 0), (FEATURES, EDGE)])
@pytest.mark.parametrize(("name", "layers"), CASES)
def test_parameters_are_counted(name: str, layers: int, features: int, edge: int, outputs: int, clock: str) -> None:
    model = build(name, layers, features, edge, outputs, clock=clock)
    assert model.shape.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", STREAM_MODELS)
def test_parameters_depend_only_on_the_seed(name: str) -> None:
    shape = shape_of(name, outputs=2)
    torch.manual_seed(1)
    first = stream_model(shape, 3).state_dict()
    state = torch.get_rng_state()
    torch.randn(9)
    other, third = stream_model(shape, 3).state_dict(), stream_model(shape, 4).state_dict()
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, other[key]) for key, value in first.items())
    assert any(not torch.equal(value, third[key]) for key, value in first.items())


@pytest.mark.parametrize("name", [name for name, kind in STREAM_MODELS.items() if kind.drops])
def test_dropout_works_only_in_training(name: str) -> None:
    model, plain = build(name, dropout=0.5), build(name)
    batch = RandomBatch(plain)
    trained = [logits_of(model, batch) for _ in range(2)]
    assert not torch.equal(*trained)
    torch.testing.assert_close(logits_of(model.eval(), batch), logits_of(plain, batch))


def test_waiting_is_standardised() -> None:
    model = build("jodie")
    model.standardise(5.0, 0.0)  # all gaps equal
    row = torch.randn(1, HIDDEN).double()
    result = model.embed([row], torch.tensor([7.0]).double())
    torch.testing.assert_close(result, (1 + 2 * model.projection) * row)
    torch.testing.assert_close(model.embed([row], torch.tensor([5.0]).double()), row)


def test_the_clock_begins_as_published() -> None:
    clock = stream_model(stream_shape(ModelChoice("tgn"), 0, 0, 0, 1), 0).clock
    elapsed = np.array([0.0, 1.0, 1e4])
    expected = np.cos(elapsed[:, None] / 10 ** np.linspace(0, 9, 100))
    np.testing.assert_allclose(clock(torch.from_numpy(elapsed).float()).detach(), expected, atol=1e-3)
    assert torch.equal(clock.zero(), torch.ones(100))


def test_the_clock_reads_zero_by_its_phase() -> None:
    """What it has learnt included, and so that it goes on learning from it."""
    clock = stream_model(stream_shape(ModelChoice("tgn"), 0, 0, 0, 1), 0).clock
    phase = torch.linspace(-2, 3, 100)
    clock.phase.data.copy_(phase)
    np.testing.assert_allclose(clock.zero().detach(), np.cos(phase.numpy()), atol=1e-6)
    np.testing.assert_allclose(clock(torch.zeros(1)).detach()[0], np.cos(phase.numpy()), atol=1e-6)
    clock.zero().sum().backward()
    np.testing.assert_allclose(clock.phase.grad, -np.sin(phase.numpy()), atol=1e-6)


def test_the_clock_is_right_however_long_ago() -> None:
    clock = stream_model(stream_shape(ModelChoice("tgn"), 0, 0, 0, 1), 0).clock
    elapsed = torch.tensor([1e6 + 1, 1e8, 999_999_936.0])
    angle = elapsed.double().numpy()[:, None] * clock.frequency.detach().double().numpy()
    np.testing.assert_allclose(clock(elapsed).detach(), np.cos(angle), atol=1e-7)


@pytest.mark.parametrize(("features", "edge", "clock"), [(0, 0, "linear"), (FEATURES, EDGE, "gaps")])
@pytest.mark.parametrize(("name", "layers"), CASES)
def test_flops_are_those_of_the_products(
    name: str, layers: int, features: int, edge: int, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (slots, gates, encoding):
        monkeypatch.setattr(module, "select_kernels", lambda device, pinned: reference)  # products that torch can count
    monkeypatch.setattr(cpp_operators, "load_operators", lambda: None)
    model = build(name, layers, features, edge, clock=clock)
    batch, shape = RandomBatch(model), model.shape
    trees, roots = batch.trees(), len(batch.roots())
    rows = torch.from_numpy(batch.features) if batch.features is not None else None
    with FlopCounterMode(display=False) as counter:
        rows = model.inputs(rows, model.update(batch.pending()) if shape.memory else None)
    assert counter.get_total_flops() == update_work(shape, NODES)[0]
    below = [rows[level] for level in trees[0].levels]
    for number in range(layers if shape.layers else 0):
        with FlopCounterMode(display=False) as counter:
            below = model.layer(number, below, trees[0])
        work = [layer_work(shape, number, len(target), FANOUTS[k])[0] for k, target in enumerate(below)]
        assert counter.get_total_flops() == sum(work)
    with FlopCounterMode(display=False) as counter:
        result = model.embed([below[0]] * shape.windows, batch.waited())
    assert counter.get_total_flops() == embed_work(shape, roots)[0]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # others are not counted
        model.score(result[:2], result[2:8].view(2, 3, -1))
    assert counter.get_total_flops() == score_work(shape, 6, 2)[0]


def test_work_is_counted_by_arrays() -> None:
    shape, rows = shape_of("tgn"), np.array([0, 5, 1 << 20])
    for work in (update_work(shape, rows), layer_work(shape, 0, rows, 10), score_work(shape, rows), embed_work(shape, rows)):
        for values in work:
            assert values.dtype == np.int64 and values.shape == rows.shape and (np.diff(values) >= 0).all()
    assert update_work(shape_of("tgat"), rows)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (ModelChoice("tgm"), "unknown model of event streams 'tgm'; did you mean 'tgn'?"),
        (ModelChoice("tgn", 10, heads=3), "model 'tgn': hidden must be a multiple of heads, got 10 and 3"),
        (ModelChoice("apan", 10, heads=4), "model 'apan': hidden must be a multiple of heads, got 10 and 4"),
        (ModelChoice("tgat", layers=3), "model 'tgat' has 1 or 2 layers over sampled neighbours, got layers: 3"),
        (ModelChoice("graphmixer", layers=2), "model 'graphmixer' has 1 layer over sampled neighbours, got layers: 2"),
        (ModelChoice("graphmixer"), "model 'graphmixer' has weights for each sampled neighbour: fanout must be at least 1, got 0"),
        (ModelChoice("jodie", layers=2), "model 'jodie' aggregates no neighbours and has no layers, got layers: 2"),
        (ModelChoice("dygformer", layers=2), "model 'dygformer' has 1 layer over sampled neighbours, got layers: 2"),
        (
            ModelChoice("tgn", time=0),
            "model 'tgn': hidden, layers, heads, time, mails, patch and windows must be at least 1, inputs at least 0",
        ),
    ],
)
def test_choices_that_cannot_be(choice: ModelChoice, message: str) -> None:
    with pytest.raises(UserError) as error:
        stream_shape(choice, 0, 0, 0, 1)
    assert str(error.value) == message


def test_widths_that_cannot_be() -> None:
    with pytest.raises(UserError, match="features, edge and outputs must be at least 0, got -1, 0 and 0"):
        stream_shape(ModelChoice("tgn"), -1, 0, 0, 1)
    assert stream_shape(ModelChoice("jodie", 10, heads=3), 0, 0, 0, 4).windows == 1
