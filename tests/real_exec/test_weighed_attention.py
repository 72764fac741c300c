"""Temporal attention to slots that have weights: against a sum over slots in float64, and its two sums against the recent neighbours'."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from native_case import needs_cpu
from stream_case import stream
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import BatchLoads, TableLoad
from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.sampling import boundary, neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.models.attention import TemporalAttention
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Hop
from chronoscale.strategies.streams.feeding import OPERATORS, Operators

WIDTH, EDGE, TIME, HIDDEN, HEADS = 5, 3, 4, 6, 2


def layer(scale: str = "linear", edge: int = EDGE) -> tuple[TemporalAttention, Clock]:
    torch.manual_seed(3)
    slot = edge + (scale == "both")
    return TemporalAttention(WIDTH, slot, TIME, HIDDEN, HEADS, 0.0).double(), Clock(TIME, scale).double()


def case(edge: int = EDGE) -> tuple[Tensor, Tensor, Hop]:
    """Targets with any number of slots, none included, and weights from 1 to 30."""
    torch.manual_seed(4)
    there = torch.arange(4) < torch.tensor([0, 1, 2, 3, 4, 4, 2])[:, None]
    hop = Hop(
        torch.randint(0, 9, (7, 4)) * there,
        there,
        50 * torch.rand(7, 4).double(),
        torch.randn(7, 4, edge).double() if edge else None,
        int(there.sum()),
        torch.where(torch.rand(7, 4) < 0.5, 1.0, 1 + 29 * torch.rand(7, 4)).double() * there + ~there,
    )
    return torch.randn(7, WIDTH).double().requires_grad_(), torch.randn(9, WIDTH).double().requires_grad_(), hop


def by_hand(made: TemporalAttention, clock: Clock, target: Tensor, source: Tensor, hop: Hop) -> Tensor:
    """w_k e^(s_k) / sum of w_j e^(s_j), target by target and head by head."""
    assert hop.weight is not None
    rows, size = [], HIDDEN // HEADS
    for i in range(len(target)):
        query = made.query(torch.cat([target[i], clock(torch.zeros(1).double())[0]]))
        parts = []
        for h in range(HEADS):
            head, above, below = slice(h * size, (h + 1) * size), torch.zeros(size).double(), torch.zeros(()).double()
            for k in range(hop.slot.shape[1]):
                if not hop.there[i, k]:
                    continue
                elapsed = hop.elapsed[i, k : k + 1]
                beside = clock.beside(hop.elapsed)
                own = [source[hop.slot[i, k]], *([] if hop.edge is None else [hop.edge[i, k]]), *([] if beside is None else [beside[i, k]])]
                x = torch.cat([*own, clock(elapsed)[0]])
                mass = hop.weight[i, k] * ((query[head] @ made.key(x)[head]) / size**0.5).exp()
                above, below = above + mass * made.value(x)[head], below + mass
            parts.append(above / below if below > 0 else above)
        rows.append(made.out(made.merge(torch.cat([*parts, target[i]])).relu()))
    return torch.stack(rows)


@pytest.mark.parametrize("operators", OPERATORS)
@pytest.mark.parametrize(("scale", "edge"), [("linear", EDGE), ("both", EDGE), ("linear", 0), ("log", EDGE)])
def test_a_slot_counts_as_often_as_its_weight_says(scale: str, edge: int, operators: Operators) -> None:
    (built, clock), (target, source, hop) = layer(scale, edge), case(edge)
    leaves = [target, source, *built.parameters(), *clock.parameters()]
    result, queries = built(target, source, hop, clock, operators), by_hand(built, clock, target, source, hop)
    torch.testing.assert_close(result, queries, rtol=0, atol=1e-11)
    into = torch.randn_like(result)
    for got, expected in zip(*(torch.autograd.grad(out, leaves, into) for out in (result, queries)), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    without = built(target, source, hop._replace(weight=None), clock, operators)
    assert (result - without).abs().max() > 1e-3


@pytest.mark.parametrize("operators", OPERATORS)
def test_without_weights_each_counts_once(operators: Operators) -> None:
    (built, clock), (target, source, hop) = layer(), case()
    first, none = (built(target, source, hop._replace(weight=weight), clock, operators) for weight in (torch.ones(7, 4).double(), None))
    torch.testing.assert_close(first, none, rtol=0, atol=1e-14)


def test_a_weight_of_two_is_a_slot_twice() -> None:
    (built, clock), (target, source, hop) = layer(), case()
    assert hop.edge is not None and hop.weight is not None
    twice = Hop(*(torch.cat([part, part[:, :1]], 1) for part in (hop.slot, hop.there, hop.elapsed, hop.edge)), 2 * hop.filled)
    weight = torch.ones(7, 4).double()
    weight[:, 0] = 2
    torch.testing.assert_close(built(target, source, hop._replace(weight=weight), clock), built(target, source, twice, clock))


def test_weights_come_to_the_device_with_their_slots() -> None:
    data = stream(events=60)
    source = IndexedStream(data, TCSR.of(data))
    seat = LocalPart(EventPartition(np.zeros(9, np.int32), (np.arange(60) % 2).astype(np.int32), 2), 1)
    roots = source.roots(range(40, 47), np.zeros((7, 1), np.int32), 40)
    for of in (None, Boundary(0.4)):
        result = neighbourhood.sample(source.tcsr, data.t, roots, Sampling((3, 2), boundary=of), 1, local_part=seat)
        loads = BatchLoads(*(TableLoad(ids) for ids in (result.nodes, result.edges, result.nodes)))
        batch = Batch.of(source, range(40, 47), np.zeros((7, 1), np.int32), roots[2], result, loads)
        batch.send(torch.device("cpu"))
        for hop, sent in zip(result.trees[0].hops, batch.trees[0].hops, strict=True):
            assert (hop.weight is None) == (sent.weight is None) == (of is None)
            if hop.weight is not None and sent.weight is not None:
                assert torch.equal(sent.weight, torch.from_numpy(hop.weight)) and (hop.weight > 1).any()


SEEDS, FANOUT = 20_000, 10
LIMIT = 6.1  # standard errors, beyond which one is once in 10^9


@pytest.mark.slow
@needs_cpu
@pytest.mark.parametrize(("theta", "decay"), [(0.2, 0.0), (0.5, 0.02)])
def test_both_sums_of_the_layer_are_unbiased(theta: float, decay: float) -> None:
    """What is weighed and what it is divided by, each a z-test against the recent neighbours'; a false alarm once in 10^7 runs.

    The layer gives their ratio alone. One local slot, which is always there, is told from all others by a feature that is 1 of it and 0
    of them: the ratio for that feature is a = e^s / denominator with a fixed e^s, so that 1 / a is the denominator and ratio / a the
    numerator, up to that factor. The layer passes its ratios on: its value weights are the identity, and a bias keeps them from the
    relu's kink.
    """
    rng = np.random.default_rng(2)
    data = EventStream(21, np.zeros(20, np.int32), np.arange(1, 21, dtype=np.int32), np.sort(rng.exponential(30, 20)))
    of = (rng.random(20) < 0.7).astype(np.int32)
    of[-3] = 0
    seat, graph = LocalPart(EventPartition(np.append(0, of).astype(np.int32), of, 2), 0), TCSR.of(data, both=False)
    root = np.zeros(1, np.int32), np.full(1, 20, np.int32)
    drawn = [boundary.sample(graph, data.t, seat, *root, FANOUT, Boundary(theta, decay, complete=False), seed) for seed in range(SEEDS)]
    drawn.append(boundary.sample(graph, data.t, seat, *root, FANOUT, Boundary(1.0)))
    event, weight, counts = (
        torch.from_numpy(np.concatenate([getattr(each, name) for each in drawn])) for name in ("event", "weight", "counts")
    )
    there, slot = torch.arange(FANOUT) < counts[:, None], event.clamp(min=0).long()
    across = WIDTH + 1 + TIME
    torch.manual_seed(1)
    built, clock = TemporalAttention(WIDTH, 1, TIME, across, 1, 0.0).double(), Clock(TIME).double()
    with torch.no_grad():
        built.value.weight.copy_(torch.eye(across))
        built.merge.weight.copy_(torch.eye(across, across + WIDTH))
        built.merge.bias.fill_(100)
        built.out.weight.copy_(torch.eye(across))
        built.out.bias.fill_(-100)
        target, source = torch.randn(1, WIDTH).double().expand(SEEDS + 1, -1), torch.randn(20, WIDTH).double()
        source[17] = 0
        elapsed = (torch.tensor(data.t[-1]) - torch.from_numpy(data.t)[slot]).double()
        hop = Hop(slot, there, elapsed, (slot == 17).double()[..., None], int(there.sum()), weight.double())
        ratio = built(target, source, hop, clock).numpy()
    share = ratio[:, WIDTH : WIDTH + 1]
    sums = np.concatenate([ratio / share, 1 / share], 1)
    exact, sums = sums[-1], np.delete(sums[:-1], WIDTH, 1)  # the marked slot's own numerator is 1 always
    error = sums.std(0, ddof=1) / np.sqrt(SEEDS)
    assert (error > 1e-4 * np.abs(sums.mean(0))).all()
    assert (np.abs(sums.mean(0) - np.delete(exact, WIDTH)) < LIMIT * error).all()
