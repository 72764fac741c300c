"""Graphs: made on the device, as large as its memory allows."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap

SKEW = 0.8  # of the Pareto law that both ends are drawn from; the largest row then has some 4 % of all edges


def drawn(nodes: int, edges: int, skewed: bool, device: str, seed: int = 7) -> CSR:
    """A random graph [nodes, nodes]; pairs may repeat. Skewed: both ends from one power law."""
    draw = torch.Generator(device).manual_seed(seed)
    source, target = (_ends(nodes, edges, skewed, device, draw) for _ in range(2))
    if skewed:  # who is popular has no order
        source, target = (torch.randperm(nodes, generator=draw, device=device)[ends] for ends in (source, target))
    keys = target.mul_(nodes).add_(source).sort().values
    del source, target
    return _csr(keys, nodes)


def normal(device: str, *shape: int, seed: int = 11) -> Tensor:
    """Gaussian features, by a generator of their own: the default one is not to be used after a capture that failed."""
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def _ends(nodes: int, edges: int, skewed: bool, device: str, draw: torch.Generator) -> Tensor:
    if not skewed:
        return torch.randint(0, nodes, (edges,), generator=draw, device=device)
    u = torch.rand(edges, generator=draw, device=device, dtype=torch.float64).clamp_(min=1e-12)
    return u.pow_(-1 / SKEW).sub_(1).mul_(20).long().remainder_(nodes)


def _csr(keys: Tensor, nodes: int) -> CSR:
    """Of ascending keys target * nodes + source."""
    starts = torch.arange(nodes + 1, device=keys.device) * nodes
    return CSR(torch.searchsorted(keys, starts), keys.remainder(nodes).int(), None, nodes)


def keys_of(graph: CSR) -> Tensor:
    """int64 [nnz]: target * num_cols + source."""
    return torch.repeat_interleave(torch.arange(graph.num_rows, device=graph.device), graph.indptr.diff()) * graph.num_cols + graph.indices


def change(graph: CSR, share: float, seed: int) -> Delta:
    """`share` of the edges change: half of them go, as many come in rows that have many."""
    draw = torch.Generator(graph.device).manual_seed(seed)
    half, nodes = max(1, int(graph.nnz * share / 2)), graph.num_rows
    picked = torch.randint(0, graph.nnz, (2 * half,), generator=draw, device=graph.device)
    target = torch.searchsorted(graph.indptr, picked, right=True).sub_(1)
    source = graph.indices[picked]
    source[half:] = torch.randint(0, nodes, (half,), generator=draw, device=graph.device, dtype=torch.int32)
    values = torch.ones(2 * half, device=graph.device)
    values[:half] = -1
    target, order = target.sort(stable=True)
    rows, counts = torch.unique_consecutive(target, return_counts=True)
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Delta(rows.int(), indptr, source[order], values[order], nodes, nodes)


def adjacency(keys: Tensor, nodes: int) -> CSR:
    """A + I as `rebuild` takes it, of any keys: the self-loop first in a row, then ascending sources; unweighted."""
    keys = torch.unique(keys)
    target, source = keys // nodes, keys % nodes
    own = torch.arange(nodes, device=keys.device) * (nodes + 1)
    placed = torch.cat([own, (target * (nodes + 1) + source + 1)[target != source]]).sort().values
    row, column = placed // (nodes + 1), placed % (nodes + 1) - 1
    indptr = torch.searchsorted(placed, torch.arange(nodes + 1, device=keys.device) * (nodes + 1))
    return CSR(indptr, torch.where(column < 0, row, column).int(), None, nodes)


def flipped(before: CSR, share: float, seed: int) -> tuple[EdgeMap, CSR]:
    """A change of `share` of the edges, half gone and half new, and the adjacency after it."""
    nodes, draw = before.num_rows, torch.Generator(before.device).manual_seed(seed)
    keys = keys_of(before).sort().values
    keys = keys[keys // nodes != keys % nodes]
    going = torch.rand(len(keys), generator=draw, device=keys.device) < share / 2
    new = torch.unique(torch.randint(0, nodes * nodes, (max(1, int(len(keys) * share / 2)),), generator=draw, device=keys.device))
    new = new[(new // nodes != new % nodes) & ~torch.isin(new, keys, assume_unique=True)]
    gone = keys[going]
    changed, order = torch.cat([gone, new]).sort()
    sign = torch.ones(len(changed), dtype=torch.int8, device=keys.device).masked_fill_(order < len(gone), -1)
    rows, counts = torch.unique_consecutive(changed // nodes, return_counts=True)
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    after = adjacency(torch.cat([keys[~going], new]), nodes)
    return EdgeMap(rows.int(), indptr, (changed % nodes).int(), sign, nodes), after
