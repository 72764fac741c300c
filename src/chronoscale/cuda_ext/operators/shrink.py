"""Cut of an adjacency to its first rows, on its device and without looking an id up (FlareDTDG, section 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.errors import UserError


def shrink(graph: CSR, rows: int, halo: int, nnz: int) -> CSR:
    """Cut a sparse matrix for kernels to its first `rows` nodes, on its device (FlareDTDG, section 3.3).

    So a snapshot loses the chunks that a window no longer keeps. The matrix is [N, N + H], of own and remote nodes; its first `rows`
    columns and the first `halo` behind the N stay: the result is [rows, rows + halo], entries in the order that they had. nnz: how many
    entries are left, which the host has to know, so that it need not wait for a GPU; with another number the result is some of them. It
    counts as checked. Raises UserError for more rows, columns or entries than there are.
    """
    own_nodes, width = graph.num_rows, graph.check().num_cols
    if not (0 <= rows <= own_nodes <= width and 0 <= halo <= width - own_nodes and 0 <= nnz <= graph.nnz):
        raise UserError(
            f"shrunk: [{own_nodes}, {width}] of {graph.nnz} entries has no part of {rows} rows, {halo} remote ones, {nnz} entries"
        )
    if (rows, halo) == (own_nodes, width - own_nodes):
        return graph
    column = graph.indices
    stays = column < rows
    if width > own_nodes:
        stays |= (column >= own_nodes) & (column < own_nodes + halo)
    ends = torch.zeros(graph.nnz + 1, dtype=torch.int64, device=graph.device)
    torch.cumsum(stays, 0, out=ends[1:])
    indptr = ends[graph.indptr[: rows + 1]]
    place = torch.where(stays, ends[:-1], nnz).clamp_(max=nnz)  # what goes, and entries of later rows, to a place behind the others
    if width > own_nodes:
        column = torch.where(column < own_nodes, column, column - (own_nodes - rows))
    indices, values = _placed(column, place, nnz), None if graph.values is None else _placed(graph.values, place, nnz)
    return CSR(indptr, indices, values, rows + halo).mark_checked()


def _placed(source: Tensor, place: Tensor, nnz: int) -> Tensor:
    """Return `source` with each entry at its place; those at nnz, behind the others, are left out."""
    return source.new_empty(nnz + 1).scatter_(0, place, source)[:nnz]
