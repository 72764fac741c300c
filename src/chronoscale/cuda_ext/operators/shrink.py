"""Shrinking: the leading part of an adjacency, cut out on its device without looking an id up (FlareDTDG §3.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.errors import UserError


def shrink(graph: CSR, rows: int, halo: int, nnz: int) -> CSR:
    """The first `rows` rows of a matrix [N, N + H] of own and remote nodes, and of their entries those in its first `rows` columns and in
    the first `halo` behind the N: [rows, rows + halo], in the order that they had.

    nnz: how many entries are left, which the host has to know, so that it need not wait for a GPU; with another number the result is some
    of them. Checked as the graph is. Raises UserError for more rows, columns or entries than there are.
    """
    own, width = graph.num_rows, graph.check().num_cols
    if not (0 <= rows <= own <= width and 0 <= halo <= width - own and 0 <= nnz <= graph.nnz):
        raise UserError(f"shrunk: [{own}, {width}] of {graph.nnz} entries has no part of {rows} rows, {halo} remote ones, {nnz} entries")
    if (rows, halo) == (own, width - own):
        return graph
    column = graph.indices
    kept = column < rows
    if width > own:
        kept |= (column >= own) & (column < own + halo)
    ends = torch.zeros(graph.nnz + 1, dtype=torch.int64, device=graph.device)
    torch.cumsum(kept, 0, out=ends[1:])
    indptr = ends[graph.indptr[: rows + 1]]
    place = torch.where(kept, ends[:-1], nnz).clamp_(max=nnz)  # what goes, and entries of later rows, to a place behind the others
    if width > own:
        column = torch.where(column < own, column, column - (own - rows))
    indices, values = _placed(column, place, nnz), None if graph.values is None else _placed(graph.values, place, nnz)
    return CSR(indptr, indices, values, rows + halo).mark_checked()


def _placed(source: Tensor, place: Tensor, nnz: int) -> Tensor:
    return source.new_empty(nnz + 1).scatter_(0, place, source)[:nnz]
