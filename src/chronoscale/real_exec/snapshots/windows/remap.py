"""Remap: build what is kept of a snapshot anew, every id looked up; the cost that shrinking saves (FlareDTDG §3.3, "naive")."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.windows.host_blocks import SnapshotRows


def kept_ids(mask: Tensor, count: int) -> Tensor:
    """Return the ascending positions of a mask's true entries, int64 [count], without waiting for a GPU: `count` says how many there
    are.
    """
    return torch.nonzero(mask).squeeze(1) if mask.device.type == "cpu" else sorted_ids(mask, count)


def sorted_ids(mask: Tensor, count: int) -> Tensor:
    """Return the ascending positions of a mask's `count` true entries by a stable sort, whose result has a known length, so that a GPU is
    not waited for.
    """
    return torch.argsort(~mask, stable=True)[:count]


def remap(whole: SnapshotRows, own: Tensor, remote: Tensor, rows: int, halo: int, nnz: int) -> SnapshotRows:
    """Build on the device what a sliding window retains of a snapshot: own and remote rows and the edges between them, in their old order
    (FlareDTDG §3.3, "naive").

    own, remote: bool masks of the rows that are retained. rows, halo, nnz: how many own rows, remote rows and edges these are.
    """
    graph, total = whole.full.graph, rows + halo
    mask = torch.cat([own, remote])
    ids = torch.cat([kept_ids(own, rows), len(own) + kept_ids(remote, halo)])
    number = torch.zeros(len(mask), dtype=torch.int64, device=graph.device)
    number[ids] = torch.arange(total, device=graph.device)
    row, column = row_ids(graph.indptr, graph.nnz), graph.indices.long()
    remaining = own[row] & mask[column]
    place = torch.where(remaining, torch.cumsum(remaining, 0) - 1, nnz)
    counts = torch.zeros(rows + 1, dtype=torch.int64, device=graph.device)
    counts.index_add_(0, torch.where(remaining, number[row], rows), remaining.long())
    indptr = torch.cat([counts.new_zeros(1), torch.cumsum(counts[:rows], 0)])
    indices = graph.indices.new_empty(nnz + 1).scatter_(0, place, number[column].int())[:nnz]
    values = None if graph.values is None else graph.values.new_empty(nnz + 1).scatter_(0, place, graph.values)[:nnz]
    scale = None if whole.full.scale is None else whole.full.scale[ids[:rows]]
    return SnapshotRows(Full(CSR(indptr, indices, values, total).mark_checked(), scale), whole.features[ids])
