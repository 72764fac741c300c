"""Neighbour sums take less time than DGL's, torch's and PyTorch Geometric's over the same graph.

Rivals: torch.sparse (MKL or cuSPARSE, int32 ids), index_add_, scatter_reduce_, segment_reduce, PyG's scatter and segment, pyg-lib, DGL's
copy_u_sum, and on a GPU a kernel in Triton. `copy` moves as many bytes as the sum must: the graph, a row of x for every edge, the result.
Of a skewed graph many rows come from the cache, and the sum may be quicker than the copy. Features in bfloat16 are summed in float32;
`error` is relative to sums of float32 features, in Frobenius norms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from core.case import Case, Passes, Setting, Subject, seconds
from core.turns import Call, time_calls
from rivals import reductions
from setups.graphs import agreeing, copy_of, drawn, graphs_on, keep_memory, normal
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate


def measure(name: str, width: int, setting: Setting) -> Passes:
    """Time all sums of one graph and width, and add what bfloat16 costs in accuracy."""
    keep_memory()
    device = setting.device
    graph = drawn(name, device)
    x = normal(device, graph.num_cols, width)
    half, whole = x.bfloat16(), partial(aggregate, graph, x)
    forms: dict[str, Callable[[], Tensor]] = {"aggregate": whole}
    forms |= {who: partial(way, x) for who, way in reductions.sums(graph).items()}
    calls: dict[str, Call] = {**agreeing(forms, 1e-3)}  # rows of millions of terms, added up in several orders
    totals = whole()
    error = float((aggregate(graph, half) - totals).norm() / totals.norm())
    assert error < 1e-2, f"sums of bfloat16 are {error:.1e} off"
    calls["bfloat16"] = partial(aggregate, graph, half)
    calls["copy"] = copy_of(graph.nbytes + 4 * width * (graph.nnz + graph.num_rows), device)
    passes = dict(seconds(time_calls(calls, setting.repeats, setting.threads, device)))
    return {**passes, "bfloat16": [{**one, "error": error} for one in passes["bfloat16"]]}


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield graphs by widths."""
    for name, width in product(graphs_on(device, quick, ("sparse", "dense", "skewed")), (16, 64, 128)):
        yield Case({"graph": name, "width": width}, partial(measure, name, width))


SUBJECT = Subject(partial(cases, "cpu"), 15, ("dgl", "torch_geometric", "pyg_lib", "triton"), partial(cases, "cuda"))
