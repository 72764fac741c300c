"""Forward: which part of TGAT's forward pass sums and softmaxes take, and what threads do for the sampler (Figure 2)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import NO_ROWS, BatchLoads, TableLoad
from chronoscale.batching.streams.sampling.redundancy import FANOUT
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.harness.reproduce.fast.sampling import roots
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.harness.study.hooks.fast import QUICK
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, Epoch, epoch, most
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.models.model import StreamModel, stream_model
from chronoscale.reports.published import published
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import stream_shape
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import ModelChoice

Call = Callable[[], object]
MODEL = ModelChoice("tgat", 100, 2, heads=2)
DATASET, SAMPLED = "wikitalk", "lastfm"
STRATEGY = "fast-none"  # TGL's operators, node after node
OPERATORS = ("aggregation", "edge softmax")
REPEATS, QUICK_REPEATS, THREADS = 7, 3, (1, 2, 3, 4)


def batch(one: Epoch) -> Batch:
    """The last whole one of an epoch, with features drawn at random, sent."""
    events, found = one.last()
    source, others = one.data.training, one.data.negatives_of(False, 0, 0)(events)
    times = source.roots(events, others, events.start)[2]
    made = Batch.of(source, events, others, times, found, BatchLoads(TableLoad(found.nodes), TableLoad(found.edges), TableLoad(NO_ROWS)))
    drawn = torch.Generator().manual_seed(0)
    made.features, made.edges = (torch.randn(ids.size, one.width, generator=drawn) for ids in (found.nodes, found.edges))
    made.send(torch.device("cpu"))
    return made


def passed(model: StreamModel, one: Batch) -> Tensor:
    """Embeddings of the roots."""
    tree, rows = one.trees[0], model.inputs(one.features, None)
    below = [rows.index_select(0, level) for level in tree.levels]
    for number in range(model.shape.layers):
        below = model.layer(number, below, tree)
    return below[0]


def operators(model: StreamModel, one: Batch) -> dict[str, Call]:
    """Sums and softmaxes of a pass by themselves, of the sizes that they have in it: of every layer, over every hop that it goes over."""
    tree, shape = one.trees[0], model.shape
    sums, softmaxes = list[tuple[CSR, Tensor]](), list[tuple[Tensor, Tensor]]()
    for number in range(shape.layers):
        width = shape.heads * (shape.width(number) + shape.slot + shape.time)
        for hop in tree.hops[: shape.layers - number]:
            indptr = torch.cat([torch.zeros(1, dtype=torch.int64), hop.there.sum(1).cumsum(0)])
            each = torch.arange(hop.filled, dtype=torch.int32)
            sums.append((CSR(indptr, each, None, hop.filled).check(), torch.ones(hop.filled, width)))
            softmaxes.append((torch.ones(hop.filled, shape.heads), indptr))
    return {
        "aggregation": lambda: [aggregate(nodes, messages) for nodes, messages in sums],
        "edge softmax": lambda: [edge_softmax(scores, indptr, longest=FANOUT) for scores, indptr in softmaxes],
    }


def parts(one: Epoch, repeats: int) -> dict[str, float]:
    """Seconds of a forward pass, "all", and of each operator in it: medians, taking turns."""
    chosen = strategy(STRATEGY)
    assert isinstance(chosen, StreamStrategy)
    model, data = stream_model(stream_shape(MODEL, one.width, one.width, 0, 1), 0), batch(one)
    model.operators = chosen.feeding.operators
    calls: dict[str, Call] = {"all": lambda: passed(model, data), **operators(model, data)}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for repeat in range(repeats + 1):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                if repeat:
                    taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def by_threads(one: Epoch, repeats: int, batches: int) -> dict[int, float]:
    """Seconds of sampling an epoch's last batches, by the number of threads, which take turns."""
    asked = roots(one, batches)
    taken: dict[int, list[float]] = {threads: [] for threads in THREADS}
    for repeat in range(repeats + 1):
        for threads in THREADS:
            start = time.perf_counter()
            for node, before in asked:
                one.data.training.tcsr.hops(node, before, SAMPLING.fanouts, threads=threads)
            if repeat:
                taken[threads].append(time.perf_counter() - start)
    return {threads: statistics.median(times) for threads, times in taken.items()}


def run(told: Told, quick: bool) -> Findings:
    """(a) and (b)."""
    told(DATASET)
    repeats = QUICK_REPEATS if quick else REPEATS
    found = parts(epoch(DATASET, most(quick)), repeats)
    theirs = published("fast").figures[2].ranges[0].high or NAN
    rows = [
        beside("(a) aggregation and edge softmax, % of the forward pass", theirs * 100,
               sum(found[name] for name in OPERATORS) / found["all"] * 100, "printed: at most, on a GPU; ours on this CPU"),
        *(beside(f"(a) {name}, % of the forward pass", NAN, found[name] / found["all"] * 100, "") for name in OPERATORS),
    ]  # fmt: skip
    told(SAMPLED)
    spent = by_threads(epoch(SAMPLED, most(quick, SAMPLED)), repeats, 20 if quick else 100)
    rows += [beside(f"(b) {n} threads, times as fast as 1", NAN, spent[1] / spent[n], "processors, no siblings") for n in THREADS[1:]]
    siblings = CpuTopology.detect().shares("core")
    said = (
        *((f"Quick: {DATASET}'s stand-in of {QUICK:,} events, fewer repeats."),) * quick,
        f"(a) TGAT of two layers, {MODEL.hidden} wide, {MODEL.heads} heads, on a late batch of {DATASET}'s stand-in with negatives, "
        f"features drawn at random; "
        f"{STRATEGY}: operators node after node. On {torch.get_num_threads()} threads of this CPU, where products of matrices take a "
        f"larger share than on a GPU; "
        "the sum and the softmax alone, without the making of messages.",
        "(b) is not reached: " + ("this machine has SMT siblings, but the study does not turn them off" if siblings else "no two "
        "processors "
        "of this machine share a core") + f". Shown is what threads, up to {THREADS[-1]}, do for the sampler; on "
        f"{len(CpuTopology.detect())} processors.",
    )  # fmt: skip
    details = pd.DataFrame({"what": list(found), "ms": [seconds * 1e3 for seconds in found.values()]})
    return Findings(
        pd.DataFrame(rows), (), {"forward": details, "threads": pd.DataFrame({"threads": list(spent), "s": list(spent.values())})}, said
    )
