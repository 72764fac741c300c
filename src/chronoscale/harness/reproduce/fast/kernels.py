"""Kernels: threads, warps and cache hits of aggregation and edge softmax on an A100, counted and modelled (Tables 2 and 5)."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from chronoscale.harness.reproduce.fast.epochs import WIDTH, epoch, most
from chronoscale.harness.reproduce.fast.reuse import by_edge, by_node, hit_rates, softmax_looping, softmax_shuffling
from chronoscale.harness.reproduce.fast.stand_ins import NAMES, QUICK
from chronoscale.harness.reproduce.fast.subgraphs import Subgraph, largest
from chronoscale.harness.reproduce.fast.warps import A100, LANES, apiece, looping, resident, shuffling
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.published import published

HEADS, SHUFFLE = 2, 16  # heads; lanes of a node in dGNN's reduction (§4.3), the next power of two above the fan-out
BLOCK = 1024  # threads
SHUFFLED, LOOPED = 32, 512  # nodes a block before and after (§6.3)
AT_ONCE = BLOCK // WIDTH  # nodes or edges a block that sums rows (§4.3: at most 8)
DATASET = "wikitalk"
NAMED = {"l1": "L1 hits, %", "l2": "L2 hits, %", "warps": "active warps an SM", "threads": "active threads a warp"}
WHY = {"l1": "modelled", "l2": "modelled, nothing there at first", "warps": "by blocks and threads alone", "threads": "counted"}


class Kernel(NamedTuple):
    """Hit rates of 1, active warps an SM, active threads a warp; and of these how many have work."""

    l1: float
    l2: float
    warps: float
    threads: float
    useful: float


def kernels(graph: Subgraph) -> dict[tuple[str, str], Kernel]:
    """By operator and whose."""
    targets, edges = graph.counts.size, graph.source.size
    nodes, each = by_node(graph, WIDTH, AT_ONCE), by_edge(graph, WIDTH, AT_ONCE)
    shuffled, looped = softmax_shuffling(graph, HEADS, SHUFFLED, SHUFFLE), softmax_looping(graph, HEADS, LOOPED)
    alike, looping_heads = looping(graph.counts), looping(graph.counts, HEADS)
    return {
        ("edge softmax", "dgnn"): Kernel(*hit_rates(shuffled), resident(-(-targets // SHUFFLED), SHUFFLED * SHUFFLE), LANES,
                                         shuffling(graph.counts, SHUFFLE)[0]),
        ("edge softmax", "fast"): Kernel(*hit_rates(looped), resident(-(-targets // LOOPED), LOOPED * HEADS), looping_heads, looping_heads),
        ("aggregation", "fastgl"): Kernel(*hit_rates(nodes), resident(-(-targets // AT_ONCE), BLOCK), alike, alike),
        ("aggregation", "fast"): Kernel(*hit_rates(each), resident(-(-edges // AT_ONCE), BLOCK), apiece(edges), apiece(edges)),
    }  # fmt: skip


def compared(line: dict[str, str | float | bool], found: Kernel, named: str) -> list[dict[str, object]]:
    """One kernel's printed numbers and ours."""
    rows = []
    for what, shown in NAMED.items():
        times = 100 if what in ("l1", "l2") else 1
        rows.append(beside(f"{named}, {shown}", float(line[what]) * times, getattr(found, what) * times, WHY[what]))
    if found.useful != found.threads:
        rows.append(beside(f"{named}, threads a warp with an edge", NAN, found.useful, "counted; idle lanes are active, too"))
    return rows


def before(told: Told, quick: bool) -> Findings:
    """Table 2: what was there, on WikiTalk: sums a thread a node, softmax by shuffles."""
    told(DATASET)
    found = kernels(largest(epoch(DATASET, most(quick))))
    of = {"aggregation": found["aggregation", "fastgl"], "edge softmax": found["edge softmax", "dgnn"]}
    rows = []
    for line in published("fast").tables[2].rows:
        name = str(line["kernel"])
        rows += compared(dict(line), of[name], name)
        rows.append(beside(f"{name}, active threads, %", float(line["active"]) * 100, of[name].threads / LANES * 100, "of 32"))
    return Findings(pd.DataFrame(rows), (), {}, read(quick))


def after(told: Told, quick: bool) -> Findings:
    """Table 5: both forms of both operators; the other stand-ins in a table of their own."""
    rows, detail = [], []
    for name in NAMES:
        told(name)
        graph = largest(epoch(name, most(quick, name)))
        found = kernels(graph)
        if name == DATASET:
            for line in published("fast").tables[5].rows:
                key = str(line["kernel"]), str(line["strategy"])
                rows += compared(dict(line), found[key], ", ".join(key))
        size = {"dataset": name, "targets": graph.counts.size, "edges": graph.source.size}
        detail += [size | {"kernel": what, "of": who} | kernel._asdict() for (what, who), kernel in found.items()]
    return Findings(pd.DataFrame(rows), (), {"kernels": pd.DataFrame(detail)}, (*read(quick), f"Of {DATASET}; all stand-ins: the CSV."))


def read(quick: bool) -> tuple[str, ...]:
    """What must be known of the numbers."""
    return (
        *((f"Quick: stand-ins of {QUICK:,} events.",) if quick else ()),
        f"Modelled, nothing ran on a GPU: an A100's {A100.sms} SMs with {A100.l1 >> 10} KB of L1 each, {A100.l2 >> 20} MB of L2, sectors "
        f"of "
        "32 bytes, the line used least recently goes; a block runs on SM number block mod SMs. Of the reads those of rows and scores "
        "alone, and atomic "
        "sums in L2. Printed figures are a profiler's, of all instructions: index reads, arithmetic of addresses, prologues.",
        "Threads are counted exactly over the degrees of the outer hop of a late batch: where a thread goes over a node's edges, a warp "
        "takes as "
        "many turns as its longest row; where it has an edge, only the last warp has idle threads; shuffles leave all 32 active, whatever "
        "they do, of which the printed 78.5 % says as little.",
        f"Warps an SM: blocks of {SHUFFLED} nodes by {SHUFFLE} lanes, of {LOOPED} nodes by {HEADS} heads, of {AT_ONCE} rows of {WIDTH}; "
        f"as many "
        "blocks as there are, and as fit. A profiler's mean also has the tail of a launch and what registers forbid.",
        "L2 begins empty: scores, which the kernel before has just written, would be found there on a GPU, and rows of features only "
        "where they come from a kernel; that is why ours of edge softmax is next to nothing.",
    )
