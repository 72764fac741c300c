"""Reference of the operators on edges in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from chronoscale.errors import UserError


def aggregate(x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, ascending: bool) -> Tensor:
    """Sum over edges in plain torch, the reference of the kernels: out[v] = sum over edges e with target[e] = v of x[source[e]], [rows, F].

    Without sources x[e] is summed. deterministic: on CUDA in one order every time; ascending (targets are sorted) is for the kernels and
    not read. Raises UserError for ids out of range; on CUDA torch itself asserts them.
    """
    _inside("aggregate_edges: target", target, rows)
    if source is not None:
        _inside("aggregate_edges: source", source, len(x))
        x = x.index_select(0, source)
    if not deterministic or not x.is_cuda:
        return x.new_zeros(rows, x.shape[1]).index_add_(0, target, x)
    # Of torch's sums on CUDA the one that sorts first, and so has an order.
    return x.new_zeros(rows, x.shape[1]).index_put_((target.long(),), x, accumulate=True)


def softmax(scores: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Return the softmax of scores [E, H] over each row's entries, for each head, in plain torch, the reference of the kernels.

    Entries of row v are indptr[v] to indptr[v + 1] - 1. longest: the most entries of a row, for the kernels; not read.
    """
    row = _rows(indptr, len(scores))
    if not scores.numel():
        return torch.empty_like(scores)
    lowest = scores.new_full((len(indptr) - 1, scores.shape[1]), -torch.inf)
    maximum = lowest.scatter_reduce(0, row[:, None].expand_as(scores), scores, "amax")
    powers = torch.exp(scores - maximum[row])
    return powers / torch.zeros_like(lowest).index_add_(0, row, powers)[row]


def softmax_grad(shares: Tensor, grad_out: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Return the gradient of an edge softmax's scores [E, H] in plain torch, the reference of the kernels.

    grad_out [E, H]: gradient of the softmax; shares [E, H]: the softmax itself, over entries indptr[v] to indptr[v + 1] - 1 of each row v.
    longest: the most entries of a row, for the kernels; not read.
    """
    row = _rows(indptr, len(shares))
    if not shares.numel():
        return torch.empty_like(shares)
    sums = shares.new_zeros(len(indptr) - 1, shares.shape[1]).index_add_(0, row, shares * grad_out)
    return shares * (grad_out - sums[row])


def gather(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """Gather rows of two tables, [C, D] and [S, D], by one index in plain torch, the reference of the kernels: out [n, D].

    out[i] = cached[index[i]] where index[i] < C, else sent[index[i] - C]. Raises UserError for ids out of range; on CUDA torch itself
    asserts them.
    """
    _inside("gather_rows: index", index, len(cached) + len(sent))
    is_cached = index < len(cached)
    out = cached.new_empty(len(index), cached.shape[1])
    for table, selected, first in ((cached, is_cached, 0), (sent, ~is_cached, len(cached))):
        places = selected.nonzero()[:, 0]
        out.index_copy_(0, places, table.index_select(0, index[places] - first))
    return out


def out_of_range_error(name: str, ids: Tensor, below: int) -> UserError | None:
    """Return the error of a kernel's ids that are not all in [0, below), or None where they are. name: of the operand, for the message."""
    if not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < below):
        return None
    return UserError(f"{name} has ids from {int(ids.min())} to {int(ids.max())}; expected ids in [0, {below})")


def unordered_error(indptr: Tensor, entries: int) -> UserError | None:
    """Return the error of a kernel's row pointers that do not ascend from 0 to the number of entries, or None where they do."""
    if int(indptr[0]) == 0 and int(indptr[-1]) == entries and not bool((indptr[1:] < indptr[:-1]).any()):
        return None
    return UserError(f"edge_softmax: indptr must ascend from 0 to {entries}, the number of scores")


def _inside(name: str, ids: Tensor, below: int) -> None:
    """Raise UserError for ids on a CPU that are not in [0, below); a GPU's host would have to wait."""
    if not ids.is_cuda and (error := out_of_range_error(name, ids, below)):
        raise error


def _rows(indptr: Tensor, entries: int) -> Tensor:
    """Return the row of each entry, int64 [E]. Raises UserError for pointers on a CPU that do not ascend."""
    if not indptr.is_cuda and (error := unordered_error(indptr, entries)):
        raise error
    return row_ids(indptr, entries)
