"""The kernels in plain torch: what every native kernel is compared with, and what runs where there is none."""

from __future__ import annotations

from torch import Tensor

from chronoscale.cuda_ext.graph import row_ids


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


def _messages(indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    messages = x[indices.long()]
    return messages if values is None else messages * values.to(x.dtype)[:, None]
