"""FAST's operators, executed: what aggregation and edge softmax take of TGAT's forward pass, and by whom (Figures 2 and 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import NO_ROWS, BatchLoads, TableLoad
from chronoscale.batching.streams.sampling.redundancy import FANOUT
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.harness.study.hooks.fast_epochs import WIDTH, Epoch, Subgraph, epoch_of, largest
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.timing import medians_in_turn
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.models.model import StreamModel, stream_model
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import stream_shape
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import ModelChoice

Call = Callable[[], object]
MODEL = ModelChoice("tgat", 100, 2, heads=2)
HEADS, DGL = 2, "dgl"
SUM, SOFTMAX = "aggregation", "edge softmax"


def batch(epoch: Epoch) -> Batch:
    """Return an epoch's last whole batch on the CPU, with random features, for timing TGAT's passes (FAST's Figure 2)."""
    events, batch = epoch.last()
    source, others = epoch.data.training, epoch.data.negatives_of(False, 0, 0)(events)
    times = source.roots(events, others, events.start)[2]
    made = Batch.of(source, events, others, times, batch, BatchLoads(TableLoad(batch.nodes), TableLoad(batch.edges), TableLoad(NO_ROWS)))
    drawn = torch.Generator().manual_seed(0)
    made.features, made.edges = (torch.randn(ids.size, epoch.width, generator=drawn) for ids in (batch.nodes, batch.edges))
    made.send(torch.device("cpu"))
    return made


def passed(model: StreamModel, sampled: Batch) -> Tensor:
    """Run TGAT's layers over a batch and return its roots' embeddings, the forward pass that FAST's Figure 2 times."""
    tree, rows = sampled.trees[0], model.inputs(sampled.features, None)
    below = [rows.index_select(0, level) for level in tree.levels]
    for number in range(model.shape.layers):
        below = model.layer(number, below, tree)
    return below[0]


def operators(model: StreamModel, sampled: Batch) -> dict[str, Call]:
    """Return calls that run aggregation alone, and edge softmax alone, in the sizes of one forward pass, to be timed for FAST's Figure 2.

    By operator's name. Each call goes over every layer and all hops of that layer.
    """
    tree, shape = sampled.trees[0], model.shape
    sums, softmaxes = list[tuple[CSR, Tensor]](), list[tuple[Tensor, Tensor]]()
    for number in range(shape.layers):
        width = shape.heads * (shape.width(number) + shape.slot + shape.time)
        for hop in tree.hops[: shape.layers - number]:
            indptr = torch.cat([torch.zeros(1, dtype=torch.int64), hop.there.sum(1).cumsum(0)])
            each = torch.arange(hop.filled, dtype=torch.int32)
            sums.append((CSR(indptr, each, None, hop.filled).check(), torch.ones(hop.filled, width)))
            softmaxes.append((torch.ones(hop.filled, shape.heads), indptr))
    return {
        SUM: lambda: [aggregate(nodes, messages) for nodes, messages in sums],
        SOFTMAX: lambda: [edge_softmax(scores, indptr, longest=FANOUT) for scores, indptr in softmaxes],
    }


def forward(point: StudyPoint) -> dict[str, Any]:
    """Time TGAT's forward pass on a batch, whole and by operator: what a point of FAST's Figure 2 gives.

    `seconds`: medians over setting `repeats`, 'all' and by operator; `threads` of PyTorch. The point's strategy decides which operators the
    model uses.
    """
    one, chosen = epoch_of(point), strategy(point.strategy)
    assert isinstance(chosen, StreamStrategy)
    model, data = stream_model(stream_shape(MODEL, one.width, one.width, 0, 1), 0), batch(one)
    model.operators = chosen.feeding.operators
    calls: dict[str, Call] = {"all": lambda: passed(model, data), **operators(model, data)}
    with torch.no_grad():
        return {"seconds": medians_in_turn(calls, point.setting("repeats")), "threads": torch.get_num_threads()}


def contestants(graph: Subgraph) -> dict[tuple[str, str], Call]:
    """Return calls that run an operator forward and backward, by (operator, whose), to be timed for FAST's Figure 9.

    'fast': edge-parallel; 'nodes': ours, a node after another; 'tgl': as TGL calls DGL, where DGL is installed.
    """
    drawn = torch.Generator().manual_seed(0)
    targets, indptr, source = graph.counts.size, torch.from_numpy(graph.indptr), torch.from_numpy(graph.source)
    target = torch.from_numpy(graph.target)
    x = torch.randn(graph.rows, WIDTH, generator=drawn).requires_grad_()
    scores = torch.randn(graph.source.size, HEADS, generator=drawn).requires_grad_()
    nodes = CSR(indptr, source.int(), None, graph.rows).check()
    forms: dict[tuple[str, str], tuple[Callable[[Tensor], Tensor], Tensor]] = {
        (SUM, "fast"): (lambda x: aggregate_edges(x, target, targets, source, ascending=True), x),
        (SUM, "nodes"): (lambda x: aggregate(nodes, x), x),
        (SOFTMAX, "fast"): (lambda scores: edge_softmax(scores, indptr, longest=FANOUT), scores),
    }
    if find_spec(DGL) is not None:
        dgl = import_module(DGL)
        block = dgl.create_block((source.int(), target.int()), num_src_nodes=graph.rows, num_dst_nodes=targets).int()
        block.create_formats_()
        forms[SUM, "tgl"] = (lambda x: dgl.ops.copy_u_sum(block, x), x)
        forms[SOFTMAX, "tgl"] = (lambda scores: dgl.ops.edge_softmax(block, scores), scores)
    calls: dict[tuple[str, str], Call] = {}
    for (what, who), (form, leaf) in forms.items():
        into = torch.randn(targets if what == SUM else graph.source.size, leaf.shape[1], generator=drawn)

        def both(form: Callable[[Tensor], Tensor] = form, leaf: Tensor = leaf, into: Tensor = into) -> object:
            return torch.autograd.grad(form(leaf), leaf, into)

        calls[what, who] = both
    return calls


def contest(point: StudyPoint) -> dict[str, Any]:
    """Time aggregation and edge softmax of several libraries on a data set's largest sampled subgraph: a point of FAST's Figure 9.

    `targets`, `edges`, `seconds` by 'operator, whose', medians over setting `repeats`. On one thread: idle threads of one library spin on
    the cores of another.
    """
    graph = largest(epoch_of(point))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    set_threads(1)
    try:
        seconds: Mapping[tuple[str, str], float] = medians_in_turn(contestants(graph), point.setting("repeats"))
    finally:
        torch.set_num_threads(threads)
        set_threads(threads)
    return {"targets": graph.counts.size, "edges": graph.source.size, "seconds": {", ".join(who): s for who, s in seconds.items()}}
