"""The kernels in plain torch: what every native kernel is compared with, and what runs where there is none."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, Delta, EdgeMap, row_ids
from chronoscale.errors import UserError

Factors = tuple[Tensor, Tensor | None]  # float64 [N]: c of columns, r of rows or None for ones
Ends = tuple[Tensor, Tensor]  # left [num_cols] and right
MISMATCH = "rebuild: the change does not belong to this adjacency, or a row of it does not begin with its own node"


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """What x of `dtype` is multiplied and summed in: bfloat16 is storage alone."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def aggregate(matrix: CSR, values: Tensor | None, x: Tensor) -> Tensor:
    """[N, F]: out[v] = sum over e in [indptr[v], indptr[v+1]) of values[e] * x[indices[e]] (REAL, eq. 1's sum), in sum_dtype(x.dtype).

    values float32 or float64 [nnz], in place of the matrix's own; None for ones.
    """
    out = x.new_zeros(matrix.num_rows, x.shape[1], dtype=sum_dtype(x.dtype))
    return out.index_add_(0, row_ids(matrix.indptr, matrix.nnz), _messages(matrix.indices, values, x))


def increment_(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """[R, F]: the new sums[rows], which are also written there (REAL, eq. 3 on the unnormalised sum); fresh rows start from zero."""
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
    """indices and values of the adjacency after a change (REAL, section 4.3); see ops.rebuild. steps int64 [changed + 1]: the sums of
    the signs before each of the change's entries; indptr: the new one; factors None where values are not wanted.
    """
    try:
        return _rebuilt(before, change, factors, indptr)
    except UserError:
        if unfit is None:
            raise
        unfit.fill_(1)
        nothing = torch.zeros(max(0, before.nnz + change.growth()), device=indptr.device)
        return nothing.int(), None if factors is None else nothing


def _rebuilt(before: CSR, change: EdgeMap, factors: Factors | None, indptr: Tensor) -> tuple[Tensor, Tensor | None]:
    nodes, lengths = before.num_rows, before.indptr.diff()
    own = torch.arange(nodes, device=indptr.device)
    if bool((lengths < 1).any()) or not torch.equal(before.indices[before.indptr[:-1]].long(), own):
        raise UserError(MISMATCH)
    place = torch.ones(before.nnz, dtype=torch.bool, device=indptr.device)
    place[before.indptr[:-1]] = False  # a row's first entry is its self-loop
    old = row_ids(before.indptr, before.nnz)[place] * nodes + before.indices[place]
    changed = change.rows.long()[row_ids(change.indptr, change.nnz)] * nodes + change.indices
    added = change.sign > 0
    kept = old[~torch.isin(old, changed[~added])]
    keys = torch.cat([kept, changed[added]]).sort().values
    if len(keys) != int(indptr[-1]) - nodes or len(torch.unique(keys)) != len(keys):
        raise UserError(MISMATCH)
    edge = torch.ones(len(keys) + nodes, dtype=torch.bool, device=indptr.device)
    edge[indptr[:-1]] = False
    indices = torch.empty(len(edge), dtype=torch.int32, device=indptr.device)
    indices[indptr[:-1]] = torch.arange(nodes, dtype=torch.int32, device=indptr.device)
    indices[edge] = (keys % max(nodes, 1)).to(torch.int32)
    if factors is None:
        return indices, None
    values = factors[0][indices.long()]
    return indices, (values if factors[1] is None else values * factors[1][row_ids(indptr, len(indices))]).float()


def softmax(
    at: AttentionEntries, ends: Ends, sign: Tensor | None, base: Tensor | None, running: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights [nnz], and for each row of the matrix its maximum, denominator and whether a removed entry held `base` (uint8).

    ends: left and right; maximum = the largest of base [R] (None: -inf) and, if `running`, the scores of the entries of sign +1 (None:
    all), 0 where that is -inf; weights = sign * exp(score - maximum).
    """
    row = row_ids(at.matrix.indptr, at.matrix.nnz)
    scores = torch.nn.functional.leaky_relu(_raw(at, row, ends), at.slope)
    lowest = scores.new_full((at.matrix.num_rows,), -torch.inf)
    base = lowest if base is None else base
    added = scores if sign is None else scores.masked_fill(sign < 0, -torch.inf)
    maximum = base.scatter_reduce(0, row, added, "amax") if running else base
    maximum = maximum.masked_fill(maximum == -torch.inf, 0)
    weights = torch.exp(scores - maximum[row]) * (1 if sign is None else sign)
    denominator = torch.zeros_like(lowest).index_add_(0, row, weights)
    tiny = (1e-6 if base.dtype == torch.float32 else 1e-14) * (1 + base.abs())
    near = scores >= (base - tiny)[row]
    held = torch.zeros_like(lowest, dtype=torch.int32)
    if sign is not None:
        held.index_add_(0, row, (near & (sign < 0)).int())
    return weights, maximum, denominator, (held > 0).to(torch.uint8)


def softmax_grad(at: AttentionEntries, ends: Ends, weights: Tensor, z: Tensor, into: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Gradients of left + right by entry [nnz] and their sums by row [R], from those of the total [R, F] and the denominator [R]."""
    row = row_ids(at.matrix.indptr, at.matrix.nnz)
    dot = (into[0][row] * z[at.matrix.indices.long()]).sum(1) + into[1][row]
    edges = weights * torch.where(_raw(at, row, ends) > 0, dot, at.slope * dot)
    return edges, torch.zeros_like(into[1]).index_add_(0, row, edges)


def column_sums(matrix: CSR, entries: Tensor) -> Tensor:
    """Sums [num_cols] of a matrix's entries [nnz]."""
    return entries.new_zeros(matrix.num_cols).index_add_(0, matrix.indices, entries)


def _raw(at: AttentionEntries, row: Tensor, ends: Ends) -> Tensor:
    return ends[0][at.matrix.indices.long()] + ends[1][row if at.rows is None else at.rows.long()[row]]


def _messages(indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    messages = x[indices.long()].to(sum_dtype(x.dtype))
    return messages if values is None else messages * values.to(messages.dtype)[:, None]
