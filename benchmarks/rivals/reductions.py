"""Rivals of the operators on edges: sums and softmax by torch, PyTorch Geometric, pyg-lib, DGL and Triton, where there are any."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import TRITON, unavailable_reason
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids

Sum = Callable[[Tensor], Tensor]
FANOUT, SKEW = 10, 1.1  # edges of a target at most; the power law of skewed degrees


def installed(name: str) -> Any:
    """Return a module, None where it cannot be imported."""
    try:
        return import_module(name)
    except (ImportError, OSError):  # its libraries may be for another torch
        return None


PYG, PYG_LIB, DGL = installed("torch_geometric.utils"), installed("pyg_lib.ops"), installed("dgl")


def sums(graph: CSR, of_edges: bool = False) -> dict[str, Sum]:
    """Return ways to add up, for each row of an unweighted graph, the rows of x at its sources; `of_edges`: x has a row an edge instead."""
    rows, target, source = graph.num_rows, row_ids(graph.indptr, graph.nnz), graph.indices.long()

    def read(x: Tensor) -> Tensor:
        return x if of_edges else x.index_select(0, source)

    ways: dict[str, Sum] = {
        "index_add_": lambda x: x.new_zeros(rows, x.shape[1]).index_add(0, target, read(x)),
        "scatter_reduce_": lambda x: x.new_zeros(rows, x.shape[1]).scatter_reduce(
            0, target[:, None].expand(-1, x.shape[1]), read(x), "sum"
        ),
        "segment_reduce": lambda x: torch.segment_reduce(read(x), "sum", offsets=graph.indptr, axis=0, initial=0.0),
    }
    if not of_edges:
        values = torch.ones(graph.nnz, device=graph.device)
        matrix = torch.sparse_csr_tensor(graph.indptr.int(), graph.indices, values, (rows, graph.num_cols))
        ways["torch.sparse"] = lambda x: torch.sparse.mm(matrix, x)
        if graph.device.type == "cuda" and unavailable_reason(TRITON) is None:
            ids = {"target": target.int(), "source": graph.indices, "rows": rows}
            ways["Triton"] = lambda x: aggregate_edges(x, **ids, deterministic=False, backend=TRITON)
    if PYG is not None:
        ways["PyG scatter"] = lambda x: PYG.scatter(read(x), target, 0, rows, "sum")
        ways["PyG segment"] = lambda x: PYG.segment(read(x), graph.indptr, "sum")
    if PYG_LIB is not None:
        ways["pyg-lib"] = lambda x: PYG_LIB.segment_sum_csr(read(x), graph.indptr)
    if DGL is not None:
        block = dgl_block(graph)
        ways["DGL"] = (lambda x: DGL.ops.copy_e_sum(block, x)) if of_edges else (lambda x: DGL.ops.copy_u_sum(block, x))
    return ways


def dgl_block(graph: CSR) -> Any:
    """Return DGL's bipartite graph of the same edges in the same order, all its formats made."""
    ends = graph.indices, row_ids(graph.indptr, graph.nnz).int()
    block = DGL.create_block(ends, num_src_nodes=graph.num_cols, num_dst_nodes=graph.num_rows).int()
    block.create_formats_()
    return block


def added(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """Add a change to `sums` by index_add_, and return the touched rows."""
    assert delta.values is not None
    target = torch.repeat_interleave(delta.rows.long(), delta.indptr.diff())
    return sums.index_add_(0, target, x[delta.indices.long()] * delta.values[:, None])[delta.rows.long()]


def softmax(graph: CSR) -> dict[str, Sum]:
    """Return ways to compute a softmax over each row's edges, by head: scores [E, H] to shares."""
    rows, target = graph.num_rows, row_ids(graph.indptr, graph.nnz)
    ways: dict[str, Sum] = {"obvious": lambda scores: obvious_softmax(scores, target, rows)}
    if PYG is not None:
        ways["PyG"] = lambda scores: PYG.softmax(scores, target, num_nodes=rows)
    if PYG_LIB is not None:
        ways["pyg-lib"] = lambda scores: PYG_LIB.softmax_csr(scores, graph.indptr)
    if DGL is not None:
        block = dgl_block(graph)
        ways["DGL"] = lambda scores: DGL.ops.edge_softmax(block, scores)
    return ways


def obvious_softmax(scores: Tensor, target: Tensor, rows: int) -> Tensor:
    """Return the softmax over each row's edges as one would write it down; target: the row of each edge, int64."""
    lowest = scores.new_full((rows, scores.shape[1]), -torch.inf)
    largest = lowest.scatter_reduce(0, target[:, None].expand_as(scores), scores.detach(), "amax")
    powers = (scores - largest[target]).exp()
    return powers / scores.new_zeros(rows, scores.shape[1]).index_add(0, target, powers)[target]


def attended(graph: CSR) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """Return ways to attend with one head, from z [N, F] and scores left, right [N] to outputs: torch's, PyG's, and DGL's GATConv."""
    target, source = row_ids(graph.indptr, graph.nnz), graph.indices.long()

    def by_softmax(way: Sum, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
        scores = torch.nn.functional.leaky_relu(left[source] + right[target], 0.2)
        shares = way(scores[:, None])
        return z.new_zeros(graph.num_rows, z.shape[1]).index_add(0, target, shares * z[source])

    ways: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {}
    for who, way in softmax(graph).items():
        if who != "DGL":
            ways[who] = lambda z, left, right, way=way: by_softmax(way, z, left, right)  # type: ignore[misc]
    if DGL is not None:
        block = dgl_block(graph)

        def passed(z: Tensor, left: Tensor, right: Tensor) -> Tensor:
            with block.local_scope():
                scores = torch.nn.functional.leaky_relu(DGL.ops.u_add_v(block, left[:, None], right[:, None]), 0.2)
                return DGL.ops.u_mul_e_sum(block, z, DGL.ops.edge_softmax(block, scores))  # type: ignore[no-any-return]

        ways["DGL"] = passed
    return ways


def degrees(targets: int, skewed: bool, draw: torch.Generator) -> Tensor:
    """Return int64 [targets]: 0 to FANOUT alike, as a sampler leaves them, or a power law of about as many edges, the largest some 4 %."""
    if not skewed:
        return torch.randint(0, FANOUT + 1, (targets,), generator=draw)
    tail = torch.rand(targets, generator=draw).clamp_(min=1e-6).pow_(-1 / SKEW)
    counts = (tail * (FANOUT / 2 * targets / tail.sum())).long()
    counts[0] += FANOUT * targets // 50
    return counts
