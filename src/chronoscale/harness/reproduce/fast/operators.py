"""Operators: time of aggregation and edge softmax over batches of stand-ins (Figure 9)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

import pandas as pd
import torch
from torch import Tensor

from chronoscale.batching.streams.sampling.redundancy import FANOUT
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.harness.study.hooks.fast import NAMES, QUICK
from chronoscale.harness.study.hooks.fast_epochs import WIDTH, epoch, most
from chronoscale.harness.study.hooks.fast_subgraphs import Subgraph, largest
from chronoscale.reports.published import published

HEADS, REPEATS, QUICK_REPEATS = 2, 15, 5
DGL = "dgl"
SUM, SOFTMAX = "aggregation", "edge softmax"
Call = Callable[[], object]


def contestants(graph: Subgraph) -> dict[tuple[str, str], Call]:
    """Forward and backward passes by operator and by whom: ours as FAST has it, ours a node after another, DGL as TGL calls it."""
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


def medians(calls: Mapping[tuple[str, str], Call], repeats: int) -> dict[tuple[str, str], float]:
    """Seconds of each, which take turns, on one thread: idle threads of one library spin on the cores of another."""
    taken: dict[tuple[str, str], list[float]] = {who: [] for who in calls}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    set_threads(1)
    try:
        for repeat in range(repeats + 1):
            for who, call in calls.items():
                start = time.perf_counter()
                call()
                if repeat:
                    taken[who].append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
        set_threads(threads)
    return {who: statistics.median(times) for who, times in taken.items()}


def run(told: Told, quick: bool) -> Findings:
    """Four stand-ins, two operators: gains over TGL's, and over sums a node after another."""
    printed = {(line.strategy, line.over): line.mean or NAN for line in published("fast").figures[9].ranges}
    rows, detail = [], []
    for name in NAMES:
        told(name)
        graph = largest(epoch(name, most(quick, name)))
        taken = medians(contestants(graph), QUICK_REPEATS if quick else REPEATS)
        for what in (SUM, SOFTMAX):
            theirs = printed.get((f"{what}, {name}", "tgl"), NAN)
            if (what, "tgl") in taken:
                ours = taken[what, "tgl"] / taken[what, "fast"]
                rows.append(beside(f"{name}, {what}, tgl's time over fast's", theirs, ours, "DGL on this CPU, not on a GPU"))
        theirs = printed.get((f"{SUM}, {name}", "fastgl"), NAN)
        ours = taken[SUM, "nodes"] / taken[SUM, "fast"]
        rows.append(
            beside(f"{name}, {SUM}, node after node over fast's", theirs, ours, "our CSR in place of FastGL, which has no CPU form")
        )
        detail += [{"dataset": name, "targets": graph.counts.size, "edges": graph.source.size, "operator": what, "of": who,
                    "ms": seconds * 1e3} for (what, who), seconds in taken.items()]  # fmt: skip
    said = (
        *((f"Quick: stand-ins of {QUICK:,} events, fewer repeats.",) if quick else ()),
        *(() if find_spec(DGL) else ("DGL is not installed: its rows are missing.",)),
        "Executed on one thread of this CPU: medians of forward and backward passes that take turns, over the "
        f"outer hop of a "
        f"batch of two hops, {WIDTH} wide, {HEADS} heads. What separates the paper's operators, idle threads of warps, is none of a CPU's: "
        "a ratio above 1 says that ours is faster than DGL's here, and nothing of a GPU.",
        "Edge by edge is slower than node after node here (below 1): warps are what it is for, and a CPU has none.",
        "dGNN's shuffles have no CPU form: Table 5 counts them.",
    )
    return Findings(pd.DataFrame(rows), (), {"times": pd.DataFrame(detail)}, said)
