"""The kernels in plain torch: what every native kernel is compared with, and what runs where there is none."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.graph import row_ids
from chronoscale.errors import UserError


def aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """[N, F]: out[v] = sum over e in [indptr[v], indptr[v+1]) of values[e] * x[indices[e]] (REAL, eq. 1's sum)."""
    out = x.new_zeros(len(indptr) - 1, x.shape[1])
    return out.index_add_(0, row_ids(indptr), _messages(indices, values, x))


def increment_(
    sums: Tensor, rows: Tensor, fresh: Tensor | None, indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor
) -> Tensor:
    """[R, F]: the new sums[rows], which are also written there (REAL, eq. 3 on the unnormalised sum); fresh rows start from zero."""
    before = sums[rows.long()]
    if fresh is not None:
        before.masked_fill_(fresh.bool()[:, None], 0)
    touched = before.add_(aggregate(indptr, indices, values, x))  # the change is summed first: one rounding at the sum's size
    sums[rows.long()] = touched
    return touched


def rebuild(
    before: tuple[Tensor, Tensor],
    rows: Tensor,
    change: tuple[Tensor, Tensor, Tensor],
    factors: tuple[Tensor, Tensor | None] | None,
    indptr: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """indices and values of the adjacency after a change (REAL, section 4.3); see ops.rebuild. `change` is the map's indptr, indices and
    the sums of the signs before each of its entries; factors float64: c by column and r by row, or None where values are not wanted.
    """
    nodes = len(indptr) - 1
    row, place = row_ids(before[0]), torch.ones(len(before[1]), dtype=torch.bool, device=indptr.device)
    place[before[0][:-1]] = False  # a row's first entry is its self-loop
    old = row[place] * nodes + before[1][place]
    changed = rows.long()[row_ids(change[0])] * nodes + change[1]
    added = change[2].diff() > 0
    kept = old[~torch.isin(old, changed[~added])]
    keys = torch.cat([kept, changed[added]]).sort().values
    if len(keys) != int(indptr[-1]) - nodes or len(torch.unique(keys)) != len(keys):
        raise UserError("rebuild: the change does not belong to this adjacency")
    edge = torch.ones(len(keys) + nodes, dtype=torch.bool, device=indptr.device)
    edge[indptr[:-1]] = False
    indices = torch.empty(len(edge), dtype=torch.int32, device=indptr.device)
    indices[indptr[:-1]] = torch.arange(nodes, dtype=torch.int32, device=indptr.device)
    indices[edge] = (keys % max(nodes, 1)).to(torch.int32)
    if factors is None:
        return indices, None
    values = factors[0][indices.long()]
    return indices, (values if factors[1] is None else values * factors[1][row_ids(indptr)]).float()


def softmax(
    rows: Tensor | None,
    matrix: tuple[Tensor, Tensor, Tensor | None],
    base: Tensor | None,
    running: bool,
    ends: tuple[Tensor, Tensor],
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights [nnz], and for each row of the matrix its maximum, denominator and whether a removed entry held `base` (uint8).

    score(e) = leaky_relu(left[indices[e]] + right[row]), row = rows[r] or r; maximum = the largest of base [R] (None: -inf) and, if
    `running`, the scores of the entries of sign +1 (None: all), 0 where that is -inf; weights = sign * exp(score - maximum).
    """
    indptr, indices, sign = matrix
    row = row_ids(indptr)
    scores = torch.nn.functional.leaky_relu(_raw(rows, row, indices, ends), slope)
    lowest = scores.new_full((len(indptr) - 1,), -torch.inf)
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


def softmax_grad(
    rows: Tensor | None,
    matrix: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor],
    slope: float,
    weights: Tensor,
    z: Tensor,
    into: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Gradients of left + right by entry [nnz] and their sums by row [R], from those of the total [R, F] and the denominator [R]."""
    indptr, indices = matrix
    row = row_ids(indptr)
    dot = (into[0][row] * z[indices.long()]).sum(1) + into[1][row]
    edges = weights * torch.where(_raw(rows, row, indices, ends) > 0, 1.0, slope) * dot
    return edges, torch.zeros_like(into[1]).index_add_(0, row, edges)


def _raw(rows: Tensor | None, row: Tensor, indices: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
    return ends[0][indices.long()] + ends[1][row if rows is None else rows.long()[row]]


def _messages(indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    messages = x[indices.long()]
    return messages if values is None else messages * values.to(x.dtype)[:, None]
