"""Neighbour sums and their increments take less time than DGL's, torch's and PyTorch Geometric's sums over the same graph.

Rivals: DGL's copy_u_sum, torch.sparse (MKL, int32 ids), index_add_, segment_reduce, PyG's scatter, pyg-lib. The increment changes 5 % of
the edges. Features in bfloat16 are summed in float32; `error` is relative to sums of float32 features, in Frobenius norms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Passes, Setting, Subject, seconds
from core.turns import Call, time_calls
from rivals import reductions
from setups.graphs import assert_equal, csr, delta, dgl, edges, keep_memory

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment_
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids

CHANGED = 0.05


def measure(name: str, width: int, setting: Setting) -> Passes:
    """Time all sums of one graph and width, and add what bfloat16 costs in accuracy."""
    keep_memory()
    source, target, nodes = edges(name)
    graph, change = csr(source, target, nodes), delta(source, target, nodes, CHANGED)
    x = torch.randn(nodes, width)
    half = x.bfloat16()
    sums = aggregate(graph, x)
    matrix = torch.sparse_csr_tensor(graph.indptr.int(), graph.indices, torch.ones(graph.nnz), (nodes, nodes))
    calls: dict[str, Call] = {"aggregate": lambda: aggregate(graph, x), "torch.sparse": lambda: torch.sparse.mm(matrix, x)}
    calls |= {
        who: partial(call, x) for who, call in reductions.sums(graph.indptr, row_ids(graph.indptr, graph.nnz), graph.indices.long()).items()
    }
    if dgl is not None:
        other = dgl.graph((torch.from_numpy(source), torch.from_numpy(target)), num_nodes=nodes).int()
        other.create_formats_()
        calls["dgl"] = lambda: dgl.ops.copy_u_sum(other, x)
    for who, call in calls.items():
        assert_equal(who, call(), sums)  # type: ignore[arg-type]
    rounded = aggregate(graph, half)
    error = float((rounded - sums).norm() / sums.norm())
    calls["increment_"] = lambda: increment_(sums, change, x)
    calls["bfloat16"] = lambda: aggregate(graph, half)
    calls["bfloat16, increment_"] = lambda: increment_(sums, change, half)
    passes = dict(seconds(time_calls(calls, setting.repeats, setting.threads)))
    return {**passes, "bfloat16": [{**one, "error": error} for one in passes["bfloat16"]]}


def cases(quick: bool) -> Iterator[Case]:
    """Yield graphs by widths."""
    for name, width in product(("tiny",) if quick else ("sparse", "dense", "skewed"), (16, 64, 128)):
        yield Case({"graph": name, "width": width}, partial(measure, name, width))


SUBJECT = Subject(cases, 15, ("dgl", "torch_geometric", "pyg_lib"))
