"""Hubs: every kernel on graphs with one enormous row, against the reference: what compute-sanitizer watches. Prints a line a case.

PYTHONPATH=src:benchmarks python3 -m gpu.hubs cuda
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, rebuild
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows
from gpu.graphs import adjacency, flipped, keys_of

NODES = 200
HUBS = (511, 512, 5_000)  # edges of row 7: one less than a block's share, that, and many times it
WIDTHS = (1, 16, 33)


def hub(edges: int) -> CSR:
    """Row 7 has `edges` in-edges, every third other row one, the rest none."""
    degree = torch.zeros(NODES, dtype=torch.int64)
    degree[::3] = 1
    degree[7] = edges
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(degree, 0)])
    indices = torch.randint(0, NODES, (int(indptr[-1]),), generator=torch.Generator().manual_seed(edges), dtype=torch.int32)
    return CSR(indptr, indices, torch.rand(len(indices)), NODES)


def cases(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, what `device` computes, what the reference does on the CPU."""
    for edges in HUBS:
        graph = hub(edges)
        there = graph.to(device)
        change = Delta(torch.arange(NODES, dtype=torch.int32), graph.indptr, graph.indices, graph.values, NODES, NODES)
        for width in WIDTHS:
            x = torch.rand(NODES, width)
            yield f"aggregate {edges} x {width}", aggregate(there, x.to(device)), aggregate(graph, x, "reference")
            result = increment(x.to(device), change.to(device), x.to(device))[0]
            yield f"increment {edges} x {width}", result, increment(x, change, x, "reference")[0]
            yield f"edges {edges} x {width}", *(_along(graph, x, False, on) for on in (device, None))
            yield f"segments {edges} x {width}", *(_along(graph, x, True, on) for on in (device, None))
            yield f"attention {edges} x {width}", _attended(there, width, device, None), _attended(graph, width, "cpu", "reference")
        yield f"shares {edges}", *(_shares(graph, on) for on in (device, None))
        tables = torch.rand(50, 16), torch.rand(NODES - 50, 16)
        result = gather_rows(*(table.to(device) for table in tables), graph.indices.to(device))
        yield f"tables {edges}", result, gather_rows(*tables, graph.indices, "reference")
    for fanout, width in ((10, 16), (33, 5), (300, 100)):
        yield f"slots {fanout} x {width}", *(_slots(fanout, width, on) for on in (device, None))
    for width in (5, 36, 140):
        yield f"gates {width}", *(_gates(width, on) for on in (device, None))
        yield f"encodings {width}", *(_encodings(width, on) for on in (device, None))
    before = adjacency(keys_of(hub(5_000)), NODES)
    change, after = flipped(before, 0.2, 1)
    result, scale = rebuild(before.to(device), change.to(device))
    expected, expected_scale = rebuild(before, change, backend="reference")
    assert torch.equal(expected.indices, after.indices)
    yield "rebuild, indices", result.indices, expected.indices
    assert result.values is not None and expected.values is not None
    yield "rebuild, values and scale", torch.cat([result.values, scale]), torch.cat([expected.values, expected_scale])
    z, left, right = torch.rand(NODES, 16), torch.rand(NODES), torch.rand(NODES)
    state, went = attention(before, z, left, right, backend="reference"), [one.to(device) for one in (z, left, right)]
    on = attention(before.to(device), *went)
    stepped = attention_increment(on, result, change.to(device), *went)[0].output()
    yield "attention's increment", stepped, attention_increment(state, expected, change, z, left, right, backend="reference")[0].output()


def _along(graph: CSR, x: Tensor, ordered: bool, device: str | None) -> Tensor:
    """Sums over edges in no order, by atomics or not; without a device the reference's."""
    target = torch.repeat_interleave(torch.arange(NODES, dtype=torch.int32), graph.indptr.diff()).flip(0)
    given, ids = (t.to(device or "cpu") for t in (x, target)), graph.indices.flip(0).to(device or "cpu")
    return aggregate_edges(*given, NODES, ids, ordered, None if device else "reference")


def _shares(graph: CSR, device: str | None) -> Tensor:
    """Shares and their gradients of three heads."""
    scores = torch.rand(graph.nnz, 3, generator=torch.Generator().manual_seed(graph.nnz)).to(device or "cpu").requires_grad_()
    shares = edge_softmax(scores, graph.indptr.to(device or "cpu"), None if device else "reference")
    return torch.cat([shares.detach(), *torch.autograd.grad(shares.square().sum(), scores)])


def _graded(made: Tensor, leaves: list[Tensor]) -> Tensor:
    """The result and its gradients, beside each other."""
    return torch.cat([one.flatten() for one in (made.detach(), *torch.autograd.grad(made.square().sum(), leaves))])


def _slots(fanout: int, width: int, device: str | None) -> Tensor:
    """Of three heads, with features of edges and encodings."""
    draw, on, count = torch.Generator().manual_seed(fanout), device or "cpu", 600 if fanout < 100 else 20
    slot, there = torch.randint(0, NODES, (count, fanout), generator=draw), torch.rand(count, fanout, generator=draw) < 0.8
    shapes = (count, 3, 3 * width), (NODES, width), (count, fanout, width), (width,), (width,)
    leaves = [torch.rand(*shape, generator=draw).to(on).requires_grad_() for shape in shapes]
    slots = Slots(slot.to(on), there.to(on), torch.rand(count, fanout, generator=draw).to(on), leaves[2])
    return _graded(attend(leaves[0], leaves[1], slots, (leaves[3], leaves[4]), backend=None if device else "reference"), leaves)


def _gates(width: int, device: str | None) -> Tensor:
    draw, on = torch.Generator().manual_seed(width), device or "cpu"
    leaves = [torch.rand(NODES, width * times, generator=draw).to(on).requires_grad_() for times in (3, 3, 1)]
    there = (torch.arange(NODES) % 3 > 0).to(on)
    return _graded(gates(leaves[0], leaves[1], leaves[2], there, None if device else "reference"), leaves)


def _encodings(width: int, device: str | None) -> Tensor:
    draw, on = torch.Generator().manual_seed(width), device or "cpu"
    leaves = [torch.rand(width, generator=draw).to(on).requires_grad_() for _ in range(2)]
    elapsed = 100 * torch.rand(1_100, generator=draw)
    return _graded(encode(elapsed.to(on), leaves[0], leaves[1], None if device else "reference"), leaves)


def _attended(graph: CSR, width: int, device: str, backend: str | None) -> Tensor:
    """The output's gradients: forward and backward kernels both."""
    draw = torch.Generator().manual_seed(width)
    z, left, right = (torch.rand(*shape, generator=draw).to(device).requires_grad_() for shape in ((NODES, width), (NODES,), (NODES,)))
    state = attention(graph, z, left, right, backend=backend)
    (state.total.square().sum() + state.denominator.sum()).backward()
    grads = [one.grad for one in (z, left, right)]
    return torch.cat([grad.flatten() for grad in grads if grad is not None])


def main(device: str) -> int:
    wrong = 0
    for name, found, expected in cases(device):
        error = float((found.cpu().double() - expected.double()).abs().max() / expected.double().abs().max())
        good = error < 1e-4
        wrong += not good
        print(f"{name}: error {error:.1e}{'' if good else ' WRONG'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
