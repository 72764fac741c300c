"""FAST's sampling threads: how much of what two of them read is the same, what binding them gains, here and in a server's caches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, Roots, thread_affinity
from chronoscale.batching.streams.sampling.locality import hit_rates, sampler_reads
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity
from chronoscale.cuda_ext.sampling import bound_threads as crew
from chronoscale.cuda_ext.sampling.cpu_topology import Cpu, CpuTopology
from chronoscale.datasets.arrays import Float64
from chronoscale.errors import MachineError, UserError
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, Epoch, epoch_of
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.host_streams import prepared
from chronoscale.harness.study.timing import medians_in_turn
from chronoscale.reports.published import Range

# FAST §6.1: two sockets of a Xeon Gold 6133 of 20 cores of two threads, an L2 a core, an L3 a socket.
SERVER = CpuTopology(tuple(Cpu(n, n % 40, n % 40, n % 40 // 20, n % 40 // 20, n % 40 // 20) for n in range(80)))
UNBOUND = "tgl"


def roots(one: Epoch, batches: int) -> list[Roots]:
    """Return of an epoch's last batches sources, destinations and negatives, and the first event that they do not see."""
    part, size, others = one.deal.part, one.deal.size, one.data.negatives_of(False, 0, 0)
    whole = len(part) // size
    starts = range(max(part.start, part.start + (whole - batches) * size), part.start + whole * size, size)
    return [one.data.training.roots(range(at, at + size), others(range(at, at + size)), at)[:2] for at in starts]


def by_threads(point: StudyPoint) -> dict[str, Any]:
    """Return the `seconds` of sampling an epoch's last batches with 1, 2, ... threads."""
    one = epoch_of(point)
    asked, tcsr = roots(one, point.setting("batches")), one.data.training.tcsr

    def sample(threads: int) -> None:
        for node, before in asked:
            tcsr.hops(node, before, SAMPLING.fanouts, threads=threads)

    counts = range(1, point.setting("threads") + 1)
    return {"seconds": medians_in_turn({n: partial(sample, n) for n in counts}, point.setting("repeats"))}


def binding(point: StudyPoint) -> dict[str, Any]:
    """Return what binding `threads` does: by a model, `hits` of L1, L2 and L3 of the paper's server, shares by who places them; here, the
    `gain` of sampling a batch, of medians, and `how` threads are bound, by affinity where this machine has something to share."""
    one, threads = epoch_of(point), point.setting("threads")
    graph, asked = one.data.training.tcsr, roots(one, point.setting("batches"))
    read = [sampler_reads(graph, batch, FANOUT, threads) for batch in asked]
    places = {UNBOUND: scattered(SERVER, threads, len(asked), 0)}
    for similarity in SIMILARITIES:
        bound = bind_by_affinity(thread_affinity(graph, asked, threads, similarity=similarity), SERVER)
        places[f"topology-aware, {similarity}"] = [list(bound.cpus)] * len(asked)
    hits = {who: dict(zip(("L1", "L2", "L3"), hit_rates(read, where, SERVER), strict=True)) for who, where in places.items()}
    return {"hits": hits, **_gain(one, asked, point.setting("repeats"))}


def _gain(one: Epoch, asked: Sequence[Roots], repeats: int) -> dict[str, Any]:
    graph, here = one.data.training.tcsr, CpuTopology.detect()
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
    how = "bound by affinity" if bound.cpus else "bound in order: no two processors here share a cache of their own"
    return {"gain": statistics.median(taken[False]) / statistics.median(taken[True]), "how": how}


def scattered(topology: CpuTopology, threads: int, batches: int, seed: int) -> list[list[int]]:
    """Return where threads that nothing binds run in each batch, by a model of the system: on different cores, drawn anew.

    Raises ValueError for more threads than cores.
    """
    rng = np.random.default_rng(seed)
    cores = [[cpu.number for cpu in group] for group in topology.groups("core")]
    return [[int(rng.choice(cores[core])) for core in rng.permutation(len(cores))[:threads]] for _ in range(batches)]


def printed_hits(printed: Mapping[str, Range], who: str, level: str) -> float:
    """Return per cent; the middle of what is printed as a range."""
    line = printed[f"{who.partition(',')[0]}, {level} hits"]
    ends = (line.mean,) if line.mean else (line.low, line.high)
    return statistics.fmean(end for end in ends if end is not None) * 100


def siblings() -> bool:
    """Say whether two processors of this machine share a core."""
    return CpuTopology.detect().shares("core")


def processors() -> int:
    """Return how many processors this machine has."""
    return len(CpuTopology.detect())


def machine_in_words() -> str:
    """Return this machine's processors, cores and caches in words."""
    return CpuTopology.detect().summary()


def alike(most: int, batches: int, threads: int) -> Float64:
    """Return the mean affinity of threads in a batch of WikiTalk's stand-in, of so many, evenly over the training events.

    Float64 [threads, threads], -1 on the diagonal.
    """
    data = prepared("wikitalk", most)
    deal = data.assignment(False, 1, BATCH, 0, max(-(-data.training_events // BATCH) // batches, 1))
    others, parts = data.negatives_of(False, 0, data.protocol.seed), [deal.rank_events(at, 0) for at in range(deal.iterations)]
    asked = [data.training.roots(own, others(own), own.start)[:2] for own in parts]
    found = thread_affinity(data.training.tcsr, asked, threads) / len(asked)
    np.fill_diagonal(found, -1.0)
    return found


def bound_here(near: Float64) -> str:
    """Return whether threads of this affinity are bound on this machine, a sentence."""
    try:
        note = bind_by_affinity(near, CpuTopology.detect()).note
    except (UserError, MachineError) as error:
        note = str(error)
    return f"Executed without binding: {note}." if note else "Executed with threads bound where the last rung says so."


def of_pairs(near: Float64) -> list[float]:
    """Return the affinity of each pair of threads."""
    return [float(one) for one in near[np.triu_indices(len(near), 1)]]
