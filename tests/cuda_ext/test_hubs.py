"""Every kernel on graphs with one enormous row, against the reference: what `make gpu` has compute-sanitizer watch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, rebuild
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from setups.graphs import adjacency, flipped, keys_of

NODES = 200
HUBS = (511, 512, 5_000)  # edges of row 7: one less than a block's share, that, and many times it
WIDTHS = (1, 16, 33)
Build = Callable[[str, str], Tensor]  # from a device and a backend to a result


@pytest.fixture(params=["on_cpu", "on_cuda"])
def device(request: pytest.FixtureRequest) -> str:
    name = str(request.param.removeprefix("on_"))
    if name not in backends():
        pytest.skip(f"no backend '{name}'")
    return name


def holds(build: Build, device: str) -> None:
    """Assert that a device's kernels compute what the reference does on the CPU."""
    result, expected = build(device, device).cpu().double(), build("cpu", "reference").double()
    assert float((result - expected).abs().max() / expected.abs().max()) < 1e-4


def hub(edges: int) -> CSR:
    """Return a graph whose row 7 has `edges` in-edges, every third other row one, the rest none."""
    degree = torch.zeros(NODES, dtype=torch.int64)
    degree[::3] = 1
    degree[7] = edges
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(degree, 0)])
    indices = torch.randint(0, NODES, (int(indptr[-1]),), generator=torch.Generator().manual_seed(edges), dtype=torch.int32)
    return CSR(indptr, indices, torch.rand(len(indices), generator=torch.Generator().manual_seed(1)), NODES)


def leaves(on: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Return tensors that want gradients."""
    draw = torch.Generator().manual_seed(len(shapes))
    return [torch.rand(*shape, generator=draw).to(on).requires_grad_() for shape in shapes]


def graded(result: Tensor, wanted: list[Tensor]) -> Tensor:
    """Return a result and its gradients, one after another."""
    return torch.cat([one.flatten() for one in (result.detach(), *torch.autograd.grad(result.square().sum(), wanted))])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("edges", HUBS)
def test_sums_increments_and_attention_of_hubs(device: str, edges: int, width: int) -> None:
    graph, x = hub(edges), torch.rand(NODES, width, generator=torch.Generator().manual_seed(2))
    change = Delta(torch.arange(NODES, dtype=torch.int32), graph.indptr, graph.indices, graph.values, NODES, NODES)
    target = torch.repeat_interleave(torch.arange(NODES, dtype=torch.int32), graph.indptr.diff()).flip(0)

    def attended(on: str, backend: str) -> Tensor:
        wanted = leaves(on, (NODES, width), (NODES,), (NODES,))
        state = attention(graph.to(on), *wanted, backend=backend)
        return graded(torch.cat([state.total, state.denominator[:, None]], 1), wanted)

    def along_edges(on: str, backend: str, deterministic: bool) -> Tensor:
        return aggregate_edges(x.to(on), target.to(on), NODES, graph.indices.flip(0).to(on), deterministic, backend)

    holds(lambda on, backend: aggregate(graph.to(on), x.to(on), backend), device)
    holds(lambda on, backend: increment(x.to(on), change.to(on), x.to(on), backend)[0], device)
    holds(lambda on, backend: along_edges(on, backend, True), device)
    holds(lambda on, backend: along_edges(on, backend, False), device)
    holds(attended, device)


@pytest.mark.parametrize("edges", HUBS)
def test_shares_and_gathered_rows_of_hubs(device: str, edges: int) -> None:
    graph, tables = hub(edges), (torch.rand(50, 16), torch.rand(NODES - 50, 16))

    def shares(on: str, backend: str) -> Tensor:
        (scores,) = wanted = leaves(on, (graph.nnz, 3))
        return graded(edge_softmax(scores, graph.indptr.to(on), backend), wanted)

    holds(shares, device)
    holds(lambda on, backend: gather_rows(*(table.to(on) for table in tables), graph.indices.to(on), backend), device)


@pytest.mark.parametrize(("fanout", "width"), [(10, 16), (33, 5), (300, 100)])
def test_attention_to_slots_of_hubs(device: str, fanout: int, width: int) -> None:
    """Three heads, with features of edges and encodings."""
    draw, count = torch.Generator().manual_seed(fanout), 600 if fanout < 100 else 20
    slot, there = torch.randint(0, NODES, (count, fanout), generator=draw), torch.rand(count, fanout, generator=draw) < 0.8
    elapsed = torch.rand(count, fanout, generator=draw)

    def attended(on: str, backend: str) -> Tensor:
        wanted = leaves(on, (count, 3, 3 * width), (NODES, width), (count, fanout, width), (width,), (width,))
        slots = Slots(slot.to(on), there.to(on), elapsed.to(on), wanted[2])
        return graded(attend(wanted[0], wanted[1], slots, (wanted[3], wanted[4]), backend=backend), wanted)

    holds(attended, device)


@pytest.mark.parametrize("width", (5, 36, 140))
def test_gates_and_encodings_of_many_rows(device: str, width: int) -> None:
    elapsed, there = 100 * torch.rand(1_100, generator=torch.Generator().manual_seed(width)), torch.arange(NODES) % 3 > 0

    def gated(on: str, backend: str) -> Tensor:
        wanted = leaves(on, (NODES, 3 * width), (NODES, 3 * width), (NODES, width))
        return graded(gates(*wanted, there.to(on), backend), wanted)

    def encoded(on: str, backend: str) -> Tensor:
        wanted = leaves(on, (width,), (width,))
        return graded(encode(elapsed.to(on), *wanted, backend), wanted)

    holds(gated, device)
    holds(encoded, device)


def test_hubs_are_rebuilt_and_attention_to_them_follows(device: str) -> None:
    before = adjacency(keys_of(hub(5_000)), NODES)
    change, after = flipped(before, 0.2)

    def rebuilt(on: str, backend: str) -> Tensor:
        graph, scale = rebuild(before.to(on), change.to(on), backend=backend)
        assert torch.equal(graph.indices.cpu(), after.indices) and graph.values is not None
        return torch.cat([graph.values, scale])

    def stepped(on: str, backend: str) -> Tensor:
        given = [one.detach() for one in leaves(on, (NODES, 16), (NODES,), (NODES,))]
        state = attention(before.to(on), *given, backend=backend)
        return attention_increment(state, after.to(on), change.to(on), *given, backend=backend)[0].output()

    holds(rebuilt, device)
    holds(stepped, device)
