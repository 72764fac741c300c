"""Remap: what is kept of a snapshot built anew, every id looked up: what shrinking saves (FlareDTDG §3.3, "naive")."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.graph import CSR, row_ids
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.windows.inherited import States
from chronoscale.real_exec.snapshots.windows.stock import Rows


def kept_ids(kept: Tensor, count: int) -> Tensor:
    """Ascending positions of the `count` that are true, int64; a device is not waited for."""
    return torch.argsort(~kept, stable=True)[:count]


def remapped(whole: Rows, own: Tensor, remote: Tensor, rows: int, halo: int, nnz: int) -> Rows:
    """The kept own and remote rows (bool masks) of a snapshot and the edges between them, in the order that they had. rows, halo, nnz: how
    many there are."""
    graph, total = whole.full.graph, rows + halo
    kept = torch.cat([own, remote])
    ids = torch.cat([kept_ids(own, rows), len(own) + kept_ids(remote, halo)])
    number = torch.zeros(len(kept), dtype=torch.int64, device=graph.device)
    number[ids] = torch.arange(total, device=graph.device)
    row, column = row_ids(graph.indptr, graph.nnz), graph.indices.long()
    left = own[row] & kept[column]
    place = torch.where(left, torch.cumsum(left, 0) - 1, nnz)
    counts = torch.zeros(rows + 1, dtype=torch.int64, device=graph.device)
    counts.index_add_(0, torch.where(left, number[row], rows), left.long())
    indptr = torch.cat([counts.new_zeros(1), torch.cumsum(counts[:rows], 0)])
    indices = graph.indices.new_empty(nnz + 1).scatter_(0, place, number[column].int())[:nnz]
    values = None if graph.values is None else graph.values.new_empty(nnz + 1).scatter_(0, place, graph.values)[:nnz]
    scale = None if whole.full.scale is None else whole.full.scale[ids[:rows]]
    return Rows(Full(CSR(indptr, indices, values, total).trusted(), scale), whole.features[ids])


class Scattered(States):
    """As `Inherited`, of rows that are no prefixes: states go to where their nodes stand among all, and are collected from there.

    `ids` int64: own rows that each place of a window has, the oldest first, those of a place among those of the next; `nodes`:
    all own rows.
    """

    def __init__(self, ids: list[Tensor], nodes: int) -> None:
        self._ids, self._nodes = ids, nodes
        self._fresh: list[Tensor] = []  # of each place, rows that the place before it has not
        for place, own in enumerate(ids):
            new = torch.ones(nodes, dtype=torch.bool, device=own.device)
            new[ids[place - 1] if place else own[:0]] = False
            self._fresh.append(torch.nonzero(new[own]).squeeze(1))  # once an epoch
        self._kept: dict[int, list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        whole = self._kept.get(layer)
        if whole is None and before is None:
            return None
        if whole is None:
            assert before is not None
            whole = [part.new_zeros(self._nodes, part.shape[1]) for part in before]
        if before is not None:
            whole = [part.index_copy(0, self._ids[step - 1], own) for part, own in zip(whole, before, strict=True)]
        return [part.index_select(0, self._ids[step]) for part in whole]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        if layer not in self._kept:
            self._kept[layer] = [part.detach().new_zeros(self._nodes, part.shape[1]) for part in after]
        fresh = self._fresh[step]
        for whole, part in zip(self._kept[layer], after, strict=True):
            whole.index_copy_(0, self._ids[step][fresh], part.detach()[fresh])
