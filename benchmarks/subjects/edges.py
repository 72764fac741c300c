"""FAST's operators on edges take less time than DGL's, torch's scatter, PyTorch Geometric's and pyg-lib at the sizes of its batches.

`sum` reads a row of x where an edge begins, `edge-sum` one an edge, `mixed` the first with edges in no order. Degrees are up to 10, as a
sampler leaves them, or skewed, a power law. Obvious softmax: scatter_reduce_, exp, index_add_, divide. `cat` lays both tables into one
before it gathers. On a GPU `atomics` adds in the order of the moment, and `Triton` is the same operator in Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from rivals import reductions
from setups.graphs import keep_memory, normal, passes
from torch import Tensor

from chronoscale.cuda_ext.native.backend import TRITON, unavailable_reason
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids
from chronoscale.cuda_ext.operators.tables import gather_rows

HEADS = 2
Form = Callable[[Tensor], Tensor]  # of a leaf


def setup(targets: int, width: int, degree: str, what: str, done: str, device: str) -> dict[str, Call]:
    """Return calls of all that compute one thing."""
    keep_memory()
    draw = torch.Generator().manual_seed(targets)
    counts = reductions.degrees(targets, degree == "skewed", draw)
    nodes, edges = 3 * targets, int(counts.sum())
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    source = torch.randint(0, nodes, (edges,), generator=draw, dtype=torch.int32)
    graph = CSR(indptr, source, None, nodes).to(device)
    forms, rows, columns = {"sum": _sum, "edge-sum": _edge_sum, "mixed": _mixed, "softmax": _softmax, "gather": _gather}[what](graph, width)
    if device == "cuda" and unavailable_reason(TRITON) is None and what not in ("sum", "softmax"):
        forms["Triton"] = partial(forms["ours"], backend=TRITON)
    leaf = normal(device, rows, columns).requires_grad_()
    return passes({who: partial(form, leaf) for who, form in forms.items()}, [leaf])[done]


def _sum(graph: CSR, width: int) -> tuple[dict[str, Form], int, int]:
    target = row_ids(graph.indptr, graph.nnz).int()
    ours = partial(aggregate_edges, target=target, rows=graph.num_rows, source=graph.indices)
    forms = {"ours": partial(ours, ascending=True), "atomics": partial(ours, deterministic=False), **reductions.sums(graph)}
    return forms, graph.num_cols, width


def _edge_sum(graph: CSR, width: int) -> tuple[dict[str, Form], int, int]:
    target = row_ids(graph.indptr, graph.nnz).int()
    ours = partial(aggregate_edges, target=target, rows=graph.num_rows, ascending=True)
    return {"ours": ours, **reductions.sums(graph, of_edges=True)}, graph.nnz, width


def _mixed(graph: CSR, width: int) -> tuple[dict[str, Form], int, int]:
    order = torch.randperm(graph.nnz, device=graph.device)
    target, source = row_ids(graph.indptr, graph.nnz).int()[order], graph.indices[order]
    row, column = target.long(), source.long()

    def index_added(x: Tensor) -> Tensor:
        return x.new_zeros(graph.num_rows, width).index_add(0, row, x[column])

    return (
        {"ours": partial(aggregate_edges, target=target, rows=graph.num_rows, source=source), "index_add_": index_added},
        graph.num_cols,
        width,
    )


def _softmax(graph: CSR, width: int) -> tuple[dict[str, Form], int, int]:
    return {"ours": partial(edge_softmax, indptr=graph.indptr), **reductions.softmax(graph)}, graph.nnz, HEADS


def _gather(graph: CSR, width: int) -> tuple[dict[str, Form], int, int]:
    """Half of the rows are resident, half are sent."""
    resident, source = normal(str(graph.device), graph.num_cols // 2, width, seed=5), graph.indices.long()
    sent_rows = graph.num_cols - len(resident)

    def ours(sent: Tensor, **options: str) -> Tensor:
        return gather_rows(resident, sent, graph.indices, **options)  # type: ignore[arg-type]

    return {"ours": ours, "cat": lambda sent: torch.cat((resident, sent)).index_select(0, source)}, sent_rows, width


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield what is computed by targets, degrees, width and pass."""
    targets = (40,) if quick else (4_000, 60_000, 1_000_000) if device == "cuda" else (4_000, 60_000)
    widths, degrees = ((8,), ("sampled",)) if quick else ((100, 128, 172), ("sampled", "skewed"))
    whats = ("sum", "edge-sum", "mixed", "softmax", "gather")
    for given in product(targets, widths, degrees, whats, ("forward", "both")):
        parameters = dict(zip(("targets", "width", "degrees", "what", "pass"), given, strict=True))
        yield Case.timed(parameters, partial(setup, *given, device))


SUBJECT = Subject(partial(cases, "cpu"), 15, ("dgl", "torch_geometric", "pyg_lib", "triton"), partial(cases, "cuda"))
