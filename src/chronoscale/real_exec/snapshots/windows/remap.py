"""Remap: what is kept of a snapshot built anew, every id looked up: what shrinking saves (FlareDTDG §3.3, "naive")."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, row_ids
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.windows.inherited import States
from chronoscale.real_exec.snapshots.windows.stock import Rows


def kept_ids(kept: Tensor, count: int) -> Tensor:
    """Ascending positions of the `count` that are true, int64; a GPU is not waited for."""
    return torch.nonzero(kept).squeeze(1) if kept.device.type == "cpu" else sorted_ids(kept, count)


def sorted_ids(kept: Tensor, count: int) -> Tensor:
    """As `kept_ids`, of how many there are being known."""
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
    return Rows(Full(CSR(indptr, indices, values, total).mark_checked(), scale), whole.features[ids])


class Scattered(States):
    """As `Inherited`, of rows that are no prefixes: states go to where their nodes stand among all, and are collected from there.

    `ids` int64: own rows that each place of a window has, the oldest first; `nodes`: all own rows.
    """

    def __init__(self, ids: list[Tensor], nodes: int) -> None:
        self._ids, self._nodes = ids, nodes
        self._fresh: list[Tensor] = []  # of each place, rows that the place before it has not
        for place, own in enumerate(ids):
            new = torch.ones(nodes, dtype=torch.bool, device=own.device)
            new[ids[place - 1] if place else own[:0]] = False
            self._fresh.append(torch.nonzero(new[own]).squeeze(1))  # once an epoch
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        kept = self._kept.get((step, layer))
        like = before if before is not None else kept
        if like is None:
            return None
        whole = [part.new_zeros(self._nodes, part.shape[1]) for part in like]
        for ids, parts in ((self._ids[step][self._fresh[step]], kept), (self._ids[step - 1], before)):
            if parts is not None:
                whole = [all_rows.index_copy(0, ids, part) for all_rows, part in zip(whole, parts, strict=True)]
        return [part.index_select(0, self._ids[step]) for part in whole]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        self._kept[step, layer] = [part.detach()[self._fresh[step]] for part in after]
