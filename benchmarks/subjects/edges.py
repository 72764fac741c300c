"""FAST's operators on edges take less time than DGL's, torch's scatter, PyTorch Geometric's and pyg-lib at the sizes of its batches.

`sum` reads a row of x where an edge begins, `sum of edges` one an edge, `mixed` the first with edges in no order. Degrees are up to 10,
as a sampler leaves them, or skewed, a power law. Obvious softmax: scatter_reduce_, exp, index_add_, divide. `cat` lays both tables into
one before it gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from rivals import reductions
from setups.graphs import dgl, keep_memory, passes
from torch import Tensor

from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.tables import gather_rows

HEADS = 2
Form = Callable[[Tensor], Tensor]  # of a leaf


def setup(targets: int, width: int, degree: str, what: str, done: str) -> dict[str, Call]:
    """Return calls of all that compute one thing."""
    keep_memory()
    torch.manual_seed(width)
    counts = reductions.degrees(targets, degree == "skewed", torch.Generator().manual_seed(targets))
    nodes, edges = 3 * targets, int(counts.sum())
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    target, source = torch.repeat_interleave(torch.arange(targets), counts), torch.randint(0, nodes, (edges,))
    order = torch.randperm(edges)
    mixed, begins = target[order].contiguous(), source[order].contiguous()
    resident = torch.randn(nodes // 2, width)

    def scattered(x: Tensor, row: Tensor) -> Tensor:
        return x.new_zeros(targets, width).scatter_reduce(0, row[:, None].expand(-1, width), x, "sum")

    def twice(x: Tensor) -> Tensor:
        out, here = x.new_empty(edges, width), source < len(resident)
        first = out.index_put((here.nonzero()[:, 0],), resident[source[here]])
        return first.index_put(((~here).nonzero()[:, 0],), x[source[~here] - len(resident)])

    of_sums: dict[str, Form] = {
        "ours": lambda x: aggregate_edges(x, target, targets, source),
        "scatter_reduce_": lambda x: scattered(x[source], target),
        **reductions.sums(indptr, target, source),
    }
    of_edges: dict[str, Form] = {
        "ours": lambda each: aggregate_edges(each, target, targets),
        "scatter_reduce_": lambda each: scattered(each, target),
        **reductions.sums(indptr, target, None),
    }
    of_mixed: dict[str, Form] = {
        "ours": lambda x: aggregate_edges(x, mixed, targets, begins),
        "index_add_": lambda x: x.new_zeros(targets, width).index_add(0, mixed, x[begins]),
        "scatter_reduce_": lambda x: scattered(x[begins], mixed),
    }
    of_softmax: dict[str, Form] = {
        "ours": lambda scores: edge_softmax(scores, indptr),
        "obvious": lambda scores: reductions.obvious_softmax(scores, target, targets),
        **reductions.softmax(indptr, target),
    }
    of_gather: dict[str, Form] = {
        "ours": lambda sent: gather_rows(resident, sent, source),
        "two gathers": twice,
        "cat": lambda sent: torch.cat((resident, sent)).index_select(0, source),
    }
    if dgl is not None:
        block = dgl.create_block((source.int(), target.int()), num_src_nodes=nodes, num_dst_nodes=targets).int()
        block.create_formats_()
        of_sums["dgl"] = lambda x: dgl.ops.copy_u_sum(block, x)
        of_edges["dgl"] = lambda each: dgl.ops.copy_e_sum(block, each)
        of_softmax["dgl"] = lambda scores: dgl.ops.edge_softmax(block, scores)
    forms, rows, columns = {
        "sum": (of_sums, nodes, width),
        "sum of edges": (of_edges, edges, width),
        "mixed": (of_mixed, nodes, width),
        "softmax": (of_softmax, edges, HEADS),
        "gather": (of_gather, nodes - len(resident), width),
    }[what]
    leaf = torch.randn(rows, columns).requires_grad_()
    return passes({who: lambda form=form: form(leaf) for who, form in forms.items()}, [leaf])[done]  # type: ignore[misc]


def cases(quick: bool) -> Iterator[Case]:
    """Yield what is computed by targets, degrees, width and pass."""
    whats = ("sum", "sum of edges", "mixed", "softmax", "gather")
    targets, widths, degree = ((40,), (8,), ("sampled",)) if quick else ((4_000, 60_000), (100, 128, 172), ("sampled", "skewed"))
    for given in product(targets, widths, degree, whats, ("forward", "both")):
        parameters = dict(zip(("targets", "width", "degrees", "what", "pass"), given, strict=True))
        yield Case.timed(parameters, lambda given=given: setup(*given))  # type: ignore[misc]


SUBJECT = Subject(cases, 15, ("dgl", "torch_geometric", "pyg_lib"))
