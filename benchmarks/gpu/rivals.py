"""Rivals: what else is installed that sums over neighbours, as calls on the same operands. Optional: each is there or is not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from gpu import twin
from gpu.timing import Call

try:
    import torch_geometric.utils as pyg
except ImportError:
    pyg = None
try:
    import dgl
except (ImportError, OSError):  # its libraries may be for another torch
    dgl = None

Calls = dict[str, list[Call]]
# Who may fail: all else that is timed is this project's, or what its figures are held against.
NAMES = frozenset({"torch.sparse", "index_add_", "pyg scatter", "pyg segment", "dgl", "triton", "pyg", "sorted afresh"})


def absent() -> list[str]:
    """Rivals that are not installed."""
    return [name for name, found in (("Triton", twin.triton), ("PyG", pyg), ("DGL", dgl)) if found is None]


def whole(graph: CSR, x: Tensor) -> Calls:
    """The neighbour sums of an unweighted graph."""
    matrix = _matrix(graph)
    row, column = row_ids(graph.indptr, graph.nnz), graph.indices.long()
    calls: Calls = {
        "torch.sparse": [lambda: torch.sparse.mm(matrix, x)],
        "index_add_": [lambda: torch.zeros(graph.num_rows, x.shape[1], device=x.device).index_add_(0, row, x[column])],
    }
    if pyg is not None:
        calls["pyg scatter"] = [lambda: pyg.scatter(x[column], row, 0, graph.num_rows, "sum")]
        calls["pyg segment"] = [lambda: pyg.segment(x[column], graph.indptr, "sum")]
    if dgl is not None:
        other = dgl.graph((column.int(), row.int()), num_nodes=graph.num_rows)
        other.create_formats_()
        calls["dgl"] = [lambda: dgl.ops.copy_u_sum(other, x)]
    if (triton := twin.aggregate(graph, x)) is not None:
        calls["triton"] = [triton]
    return calls


def summed(graph: CSR, x: Tensor, weights: Tensor | None = None) -> Tensor:
    """By torch.sparse: what ours has to be near to. `weights`: [nnz]; 1 each by default."""
    return torch.sparse.mm(_matrix(graph, weights), x)


def _matrix(graph: CSR, weights: Tensor | None = None) -> Tensor:
    values = torch.ones(graph.nnz, device=graph.device) if weights is None else weights
    return torch.sparse_csr_tensor(graph.indptr.int(), graph.indices, values, (graph.num_rows, graph.num_cols))


def change(sums: Tensor, deltas: list[Delta], x: Tensor) -> Calls:
    """The sums after a change, in place, and the touched rows; a call a change."""
    calls: Calls = {"index_add_": [added(sums, delta, x) for delta in deltas]}
    made = [one for delta in deltas if (one := twin.increment(sums, delta, x)) is not None]
    return {**calls, "triton": made} if made else calls


def added(sums: Tensor, delta: Delta, x: Tensor) -> Callable[[], Tensor]:
    """A call that adds a change to `sums` and returns the touched rows."""
    assert delta.values is not None
    rows, column, weights = delta.rows.long(), delta.indices.long(), delta.values[:, None]
    target = torch.repeat_interleave(rows, delta.indptr.diff())
    return lambda: sums.index_add_(0, target, x[column] * weights)[rows]


def attended(graph: CSR, z: Tensor, left: Tensor, right: Tensor) -> Calls:
    """Attention of one head, from scores to outputs."""
    if pyg is None:
        return {}
    row, column = row_ids(graph.indptr, graph.nnz), graph.indices.long()

    def call() -> Tensor:
        scores = torch.nn.functional.leaky_relu(left[column] + right[row], 0.2)
        weights = pyg.softmax(scores, row, num_nodes=graph.num_rows)
        sums: Tensor = pyg.scatter(weights[:, None] * z[column], row, 0, graph.num_rows, "sum")
        return sums

    return {"pyg": [call]}
