"""Sampling: what binding threads to processors does for the sampler: its time here, and cache hits on the paper's server (Figure 10)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, Roots, thread_affinity
from chronoscale.batching.streams.sampling.locality import hit_rates, sampler_reads
from chronoscale.batching.streams.sampling.redundancy import FANOUT
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity
from chronoscale.cuda_ext.sampling import bound_threads as crew
from chronoscale.cuda_ext.sampling.cpu_topology import Cpu, CpuTopology
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.harness.study.hooks.fast import NAMES, QUICK
from chronoscale.harness.study.hooks.fast_epochs import Epoch, epoch, most
from chronoscale.reports.published import Range, published

THREADS = 40  # §6.3
BATCHES, QUICK_BATCHES, REPEATS, QUICK_REPEATS = 100, 20, 9, 3
UNBOUND = "tgl"
# FAST §6.1: two sockets of a Xeon Gold 6133 of 20 cores of two threads, an L2 a core, an L3 a socket.
SERVER = CpuTopology(tuple(Cpu(n, n % 40, n % 40, n % 40 // 20, n % 40 // 20, n % 40 // 20) for n in range(80)))
LEVELS = ("L1", "L2", "L3")


def roots(one: Epoch, batches: int) -> list[Roots]:
    """Of an epoch's last batches: sources, destinations and negatives, and the first event that they do not see."""
    part, size, told = one.deal.part, one.deal.size, one.data.negatives_of(False, 0, 0)
    found = []
    for start in range(max(part.start, part.start + (len(part) // size - batches) * size), part.start + len(part) // size * size, size):
        events = range(start, start + size)
        found.append(one.data.training.roots(events, told(events), start)[:2])
    return found


def scattered(topology: CpuTopology, threads: int, batches: int, seed: int) -> list[list[int]]:
    """Where threads that nothing binds run in each batch, by a model of the system: on different cores, drawn anew. Raises ValueError for
    more threads than cores."""
    rng = np.random.default_rng(seed)
    cores = [[cpu.number for cpu in group] for group in topology.groups("core")]
    return [[int(rng.choice(cores[core])) for core in rng.permutation(len(cores))[:threads]] for _ in range(batches)]


def modelled(one: Epoch, batches: int) -> dict[str, list[float]]:
    """Hit rates of L1, L2 and L3 of the paper's server, by who places its threads."""
    graph, asked = one.data.training.tcsr, roots(one, batches)
    read = [sampler_reads(graph, batch, FANOUT, THREADS) for batch in asked]
    places = {UNBOUND: scattered(SERVER, THREADS, len(asked), 0)}
    for similarity in SIMILARITIES:
        bound = bind_by_affinity(thread_affinity(graph, asked, THREADS, similarity=similarity), SERVER)
        places[f"topology-aware, {similarity}"] = [list(bound.cpus)] * len(asked)
    return {who: hit_rates(read, where, SERVER) for who, where in places.items()}


def executed(one: Epoch, batches: int, repeats: int) -> tuple[float, str]:
    """How much faster bound threads sample here, medians of batches, and in what order they are bound: by affinity where this machine has
    something to share."""
    graph, asked, here = one.data.training.tcsr, roots(one, batches), CpuTopology.detect()
    bound = bind_by_affinity(thread_affinity(graph, asked, len(here)), here)
    cpus: Sequence[int] = bound.cpus or [cpu.number for cpu in here.cpus]
    taken: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(repeats + 1):
        for binds in taken:
            with crew.threads_bound_to(list(cpus) if binds else []):
                for node, before in asked:
                    start = time.perf_counter()
                    graph.sample(node, before, FANOUT, threads=0 if binds else len(here))
                    if repeat:
                        taken[binds].append(time.perf_counter() - start)
    why = "bound by affinity" if bound.cpus else "bound in order: no two processors here share a cache of their own"
    return statistics.median(taken[False]) / statistics.median(taken[True]), why


def run(told: Told, quick: bool) -> Findings:
    """(a), then (b)."""
    printed = published("fast").figures[10].ranges
    gains = printed[0]
    rows, detail, speeds = [], [], list[float]()
    batches = QUICK_BATCHES if quick else BATCHES
    for name in NAMES:
        told(name)
        one = epoch(name, most(quick, name))
        gain, why = executed(one, batches, QUICK_REPEATS if quick else REPEATS)
        speeds.append(gain)
        rows.append(beside(f"(a) {name}, unbound over bound, time", NAN, gain, why))
        for who, rates in modelled(one, batches).items():
            detail.append({"dataset": name, "threads": THREADS, "placed": who} | dict(zip(LEVELS, rates, strict=True)))
    for end, ours in (("low", min(speeds)), ("high", max(speeds))):
        rows.append(beside(f"(a) unbound over bound, {end}est", getattr(gains, end) or NAN, ours, "four data sets"))
    for line in detail:
        for level in LEVELS[1:]:
            theirs = _printed(printed, str(line["placed"]).split(",")[0], level) if line["dataset"] == "wikitalk" else NAN
            rows.append(
                beside(f"(b) {line['dataset']}, {line['placed']}, {level} hits, %", theirs, float(str(line[level])) * 100, "modelled")
            )
    said = (
        *((f"Quick: stand-ins of {QUICK:,} events, {QUICK_BATCHES} batches, fewer repeats.",) if quick else ()),
        "(a) What binding gains is not reached by execution" + (": " if not CpuTopology.detect().shares("core") else ", or not alone: ")
        + f"{CpuTopology.detect().summary()}; bound threads have a fixed part of a batch each, unbound ones take what comes next, and "
        "other work on a bound thread's "
        "processor is waited for: medians of single batches.",
        f"(b) is a model of caches that forget what was used least recently, on the server of §6.1, {THREADS} threads, {batches} batches "
        f"of sources, "
        "destinations and negatives: reads of the T-CSR alone, L1 of 32 KB and L2 of 1 MB a core, L3 of 27.5 MB a socket. tgl: threads "
        "on cores drawn anew "
        "in each batch; topology-aware: pairs of threads on siblings. A profiler counts everything else a sampler does, too, and "
        "prefetches.",
        "By chunks: threads are as similar as the nodes that their parts of a batch read; as-published: Algorithm 2 as printed. Binding "
        "is static in both; "
        "'dynamic' is not described in the paper. 50 to 52 % is taken at its middle.",
    )  # fmt: skip
    return Findings(pd.DataFrame(rows), (), {"hits": pd.DataFrame(detail)}, said)


def _printed(ranges: Sequence[Range], who: str, level: str) -> float:
    """Per cent; the middle of what is printed as a range."""
    line = next(one for one in ranges if one.strategy == f"{who}, {level} hits")
    ends = (line.mean,) if line.mean else (line.low, line.high)
    return statistics.fmean(end for end in ends if end is not None) * 100
