"""Checks: what the kernels compute on the graphs that they are timed on, beside sums by other means; each as a share of the largest."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment_, rebuild
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from gpu import rivals
from gpu.record import Failed

WRONG = 1e-3  # rows of millions of float32 terms, added up in two orders
ROUNDED = 1e-2  # of bfloat16
SLOPE = 0.2  # of attention's leaky ReLU


def off(what: str, found: Tensor, expected: Tensor, allowed: float = WRONG) -> float:
    """The largest difference over the largest expected value. Raises Failed where it is more than `allowed`, or not a number."""
    error = float((found - expected).abs().max() / expected.abs().max())
    if not error <= allowed:
        raise Failed(f"{what} differ by {error:.1e} of the largest")
    return error


def sums(graph: CSR, x: Tensor, half: Tensor) -> dict[str, float]:
    """Errors of the whole sums, against torch.sparse's. `half`: x in bfloat16. Raises as `off`."""
    expected = rivals.summed(graph, x)
    error = off("sums and torch.sparse's", aggregate(graph, x), expected)
    return {"error": error, "error_bf16": off("sums in bfloat16 and torch.sparse's", aggregate(graph, half), expected, ROUNDED)}


def increment(before: Tensor, delta: Delta, x: Tensor) -> float:
    """Of the sums after a change, and of its touched rows, against `index_add_`. Raises as `off`."""
    ours, other = before.clone(), before.clone()
    touched = increment_(ours, delta, x)
    expected = rivals.added(other, delta, x)()
    return max(off("sums after a change and index_add_'s", ours, other), off("touched rows and index_add_'s", touched, expected))


def rebuilt(before: CSR, step: EdgeMap, after: CSR) -> None:
    """Raises Failed unless `after` is what a change makes of `before`, id by id."""
    rebuilt, _ = rebuild(before, step, weighted=False)
    if not (torch.equal(rebuilt.indptr, after.indptr) and torch.equal(rebuilt.indices, after.indices)):
        raise Failed("the rebuilt adjacency is not the one sorted afresh")


def attended(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> float:
    """Of attention's outputs, in rows with an entry, against a softmax of torch's operations and torch.sparse. Raises as `off`."""
    row, column = row_ids(graph.indptr, graph.nnz), graph.indices.long()
    scores = torch.nn.functional.leaky_relu(left[column] + right[row], SLOPE)
    largest = scores.new_full((graph.num_rows,), -torch.inf).scatter_reduce_(0, row, scores, "amax")
    weights = (scores - largest[row]).exp_()
    total = weights.new_zeros(graph.num_rows).index_add_(0, row, weights)
    del scores, column
    expected = rivals.summed(graph, z, weights / total[row])
    there = (graph.indptr.diff() > 0)[:, None]  # a row without entries has no output
    return off("attention and a softmax of torch's", attention(graph, z, left, right).output().where(there, 0), expected)
