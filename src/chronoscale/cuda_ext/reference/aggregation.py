"""Reference of the graph kernels (sums over neighbours, rebuilding, attention) in plain torch, for every device."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, Delta, EdgeMap
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from chronoscale.errors import UserError

Factors = tuple[Tensor, Tensor | None]  # float64 [N]: c of columns, r of rows or None for ones
Ends = tuple[Tensor, Tensor]  # left [num_cols] and right
MISMATCH = "rebuild: the change does not belong to this adjacency, or a row of it does not begin with its own node"


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which kernels multiply and sum x of `dtype`: float32 for bfloat16, which is only a format to store."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def aggregate(matrix: CSR, values: Tensor | None, x: Tensor) -> Tensor:
    """Sum the neighbours of each row in plain torch, the reference of the kernels (REAL, eq. 1).

    out[v] = sum over e in [indptr[v], indptr[v+1]) of values[e] * x[indices[e]]. values float32 or float64 [nnz], in place of the matrix's
    own; None for ones. x [num_cols, F]; returns [N, F] in sum_dtype(x.dtype).
    """
    out = x.new_zeros(matrix.num_rows, x.shape[1], dtype=sum_dtype(x.dtype))
    return out.index_add_(0, row_ids(matrix.indptr, matrix.nnz), _messages(matrix.indices, values, x))


def increment_(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """Add a change to neighbour sums in place, in plain torch, the reference of the kernels (REAL, eq. 3 on the unnormalised sum).

    Returns a copy of the touched rows, [R, F]. Fresh rows of the change start from zero.
    """
    rows = delta.rows.long()
    before = sums[rows]
    if delta.fresh is not None:
        before.masked_fill_(delta.fresh.bool()[:, None], 0)
    # The change is summed first: one rounding at the sum's size.
    sums[rows] = touched = before.add_(aggregate(delta.compact(), delta.values, x))
    return touched


def rebuild(
    before: CSR, change: EdgeMap, steps: Tensor, factors: Factors | None, indptr: Tensor, unfit: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return indices and values of the next snapshot's adjacency in plain torch, the reference of the kernels (REAL, section 4.3).

    before: the adjacency so far; change: the edges that change. steps int64 [changed + 1]: sums of the signs before each entry of the
    change. factors: float64 factors of columns and rows; None: no values. indptr: of the new adjacency. unfit int32 [1]: becomes 1 where
    the change does not belong to the adjacency; None: then UserError is raised.
    """
    try:
        return _rebuilt(before, change, factors, indptr)
    except UserError:
        if unfit is None:
            raise
        unfit.fill_(1)
        zeros = torch.zeros(max(0, before.nnz + change.growth()), device=indptr.device)
        return zeros.int(), None if factors is None else zeros


def _rebuilt(before: CSR, change: EdgeMap, factors: Factors | None, indptr: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the new indices and values, or raise UserError where the change does not belong to the adjacency."""
    nodes, lengths = before.num_rows, before.indptr.diff()
    node = torch.arange(nodes, device=indptr.device)
    if bool((lengths < 1).any()) or not torch.equal(before.indices[before.indptr[:-1]].long(), node):
        raise UserError(MISMATCH)
    is_edge = torch.ones(before.nnz, dtype=torch.bool, device=indptr.device)
    is_edge[before.indptr[:-1]] = False  # a row's first entry is its self-loop
    old_keys = row_ids(before.indptr, before.nnz)[is_edge] * nodes + before.indices[is_edge]
    changed_keys = change.rows.long()[row_ids(change.indptr, change.nnz)] * nodes + change.indices
    added = change.sign > 0
    kept_keys = old_keys[~torch.isin(old_keys, changed_keys[~added])]
    keys = torch.cat([kept_keys, changed_keys[added]]).sort().values
    if len(keys) != int(indptr[-1]) - nodes or len(torch.unique(keys)) != len(keys):
        raise UserError(MISMATCH)
    is_edge_now = torch.ones(len(keys) + nodes, dtype=torch.bool, device=indptr.device)
    is_edge_now[indptr[:-1]] = False
    indices = torch.empty(len(is_edge_now), dtype=torch.int32, device=indptr.device)
    indices[indptr[:-1]] = torch.arange(nodes, dtype=torch.int32, device=indptr.device)
    indices[is_edge_now] = (keys % max(nodes, 1)).to(torch.int32)
    if factors is None:
        return indices, None
    values = factors[0][indices.long()]
    return indices, (values if factors[1] is None else values * factors[1][row_ids(indptr, len(indices))]).float()


def softmax(
    entries: AttentionEntries, ends: Ends, sign: Tensor | None, base: Tensor | None, running: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute a graph attention head's unnormalised softmax weights in plain torch, the reference of the kernels.

    A weight is sign * exp(score - the row's maximum), for each entry. ends: left [num_cols] and right. A row's maximum is the largest of
    base [R] (None: -inf) and, if `running`, the scores of its entries of sign +1 (None: all), or 0 where that is -inf.

    Returns weights [nnz] and, for each row, the maximum, the denominator (sum of its weights), and whether a removed entry had the score
    `base` (uint8).
    """
    row = row_ids(entries.matrix.indptr, entries.matrix.nnz)
    scores = torch.nn.functional.leaky_relu(_raw(entries, row, ends), entries.slope)
    lowest = scores.new_full((entries.matrix.num_rows,), -torch.inf)
    base = lowest if base is None else base
    added = scores if sign is None else scores.masked_fill(sign < 0, -torch.inf)
    maximum = base.scatter_reduce(0, row, added, "amax") if running else base
    maximum = maximum.masked_fill(maximum == -torch.inf, 0)
    weights = torch.exp(scores - maximum[row]) * (1 if sign is None else sign)
    denominator = torch.zeros_like(lowest).index_add_(0, row, weights)
    tiny = (1e-6 if base.dtype == torch.float32 else 1e-14) * (1 + base.abs())
    at_base = scores >= (base - tiny)[row]
    removals = torch.zeros_like(lowest, dtype=torch.int32)
    if sign is not None:
        removals.index_add_(0, row, (at_base & (sign < 0)).int())
    return weights, maximum, denominator, (removals > 0).to(torch.uint8)


def softmax_grad(
    entries: AttentionEntries, ends: Ends, weights: Tensor, z: Tensor, grad_out: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the gradients of an attention head's scores before leaky_relu, in plain torch, the reference of the kernels.

    Of left + right for each entry [nnz], and their sums for each row [R]. z: features [num_cols, F]. `grad_out`: the gradients of the rows'
    sums [R, F] and of their denominators [R].
    """
    row = row_ids(entries.matrix.indptr, entries.matrix.nnz)
    dot = (grad_out[0][row] * z[entries.matrix.indices.long()]).sum(1) + grad_out[1][row]
    entry_grads = weights * torch.where(_raw(entries, row, ends) > 0, dot, entries.slope * dot)
    return entry_grads, torch.zeros_like(grad_out[1]).index_add_(0, row, entry_grads)


def column_sums(matrix: CSR, entries: Tensor) -> Tensor:
    """Sum a matrix's entries [nnz] by column in plain torch, the reference of the kernels: [num_cols]."""
    return entries.new_zeros(matrix.num_cols).index_add_(0, matrix.indices, entries)


def _raw(entries: AttentionEntries, row: Tensor, ends: Ends) -> Tensor:
    """Return left + right of each entry: its score before leaky_relu."""
    return ends[0][entries.matrix.indices.long()] + ends[1][row if entries.rows is None else entries.rows.long()[row]]


def _messages(indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """Return values[e] * x[indices[e]] for each entry, [nnz, F]."""
    messages = x[indices.long()].to(sum_dtype(x.dtype))
    return messages if values is None else messages * values.to(messages.dtype)[:, None]
