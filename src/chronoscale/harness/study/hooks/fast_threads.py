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


def roots(epoch: Epoch, batches: int) -> list[Roots]:
    """Return the root nodes of an epoch's last whole batches, which FAST's Figures 2 and 10 sample by several threads.

    Each with the first event that it must not see. batches: how many. Roots are sources, destinations and negatives.
    """
    part, size, others = epoch.deal.part, epoch.deal.size, epoch.data.negatives_of(False, 0, 0)
    whole = len(part) // size
    starts = range(max(part.start, part.start + (whole - batches) * size), part.start + whole * size, size)
    return [epoch.data.training.roots(range(at, at + size), others(range(at, at + size)), at)[:2] for at in starts]


def by_threads(point: StudyPoint) -> dict[str, Any]:
    """Time neighbour sampling on this machine by number of threads: a point of FAST's Figure 2.

    Settings: `threads`: the most that are tried, from 1; `batches`: how many of an epoch's last ones are sampled; `repeats`. Returns
    {'seconds': number of threads -> median of sampling all these batches}.
    """
    one = epoch_of(point)
    root_batches, tcsr = roots(one, point.setting("batches")), one.data.training.tcsr

    def sample(threads: int) -> None:
        for node, before in root_batches:
            tcsr.hops(node, before, SAMPLING.fanouts, threads=threads)

    counts = range(1, point.setting("threads") + 1)
    return {"seconds": medians_in_turn({n: partial(sample, n) for n in counts}, point.setting("repeats"))}


def binding(point: StudyPoint) -> dict[str, Any]:
    """Return what binding sampling threads to cores gains: a point of FAST's Figure 10.

    `hits`: 'tgl' (threads not bound) or 'topology-aware, ...' (bound by a kind of similarity) -> 'L1', 'L2', 'L3' -> modelled hit rate, 0
    to 1, on the paper's server; `gain`: how many times as fast bound threads sample on this machine, of medians; `how`: in words, how
    threads are bound here. Settings: `threads` of the server, `batches`: an epoch's last ones, `repeats`.
    """
    one, threads = epoch_of(point), point.setting("threads")
    graph, root_batches = one.data.training.tcsr, roots(one, point.setting("batches"))
    read = [sampler_reads(graph, batch, FANOUT, threads) for batch in root_batches]
    places = {UNBOUND: scattered(SERVER, threads, len(root_batches), 0)}
    for similarity in SIMILARITIES:
        bound = bind_by_affinity(thread_affinity(graph, root_batches, threads, similarity=similarity), SERVER)
        places[f"topology-aware, {similarity}"] = [list(bound.cpus)] * len(root_batches)
    hits = {who: dict(zip(("L1", "L2", "L3"), hit_rates(read, where, SERVER), strict=True)) for who, where in places.items()}
    return {"hits": hits, **_gain(one, root_batches, point.setting("repeats"))}


def _gain(one: Epoch, root_batches: Sequence[Roots], repeats: int) -> dict[str, Any]:
    graph, here = one.data.training.tcsr, CpuTopology.detect()
    bound = bind_by_affinity(thread_affinity(graph, root_batches, len(here)), here)
    cpus: Sequence[int] = bound.cpus or [cpu.number for cpu in here.cpus]
    taken: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(repeats + 1):
        for binds in taken:
            with crew.threads_bound_to(list(cpus) if binds else []):
                for node, before in root_batches:
                    start = time.perf_counter()
                    graph.sample(node, before, FANOUT, threads=0 if binds else len(here))
                    if repeat:
                        taken[binds].append(time.perf_counter() - start)
    how = "bound by affinity" if bound.cpus else "bound in order: no two processors here share a cache of their own"
    return {"gain": statistics.median(taken[False]) / statistics.median(taken[True]), "how": how}


def scattered(topology: CpuTopology, threads: int, batches: int, seed: int) -> list[list[int]]:
    """Return the CPU of each sampling thread in each batch where nothing binds threads, the rival in FAST's Figure 10.

    Different cores, drawn anew for each batch; lists [batches][threads]. Raises ValueError for more threads than cores.
    """
    rng = np.random.default_rng(seed)
    cores = [[cpu.number for cpu in group] for group in topology.groups("core")]
    return [[int(rng.choice(cores[core])) for core in rng.permutation(len(cores))[:threads]] for _ in range(batches)]


def printed_hits(printed: Mapping[str, Range], who: str, level: str) -> float:
    """Return a cache hit rate that FAST's Figure 10 prints, in per cent; the middle of what is printed as a range.

    printed: the figure's ranges by label. who: the variant's name, read up to its comma. level: 'L1', 'L2' or 'L3'.
    """
    line = printed[f"{who.partition(',')[0]}, {level} hits"]
    ends = (line.mean,) if line.mean else (line.low, line.high)
    return statistics.fmean(end for end in ends if end is not None) * 100


def siblings() -> bool:
    """Say whether two processors of this machine share a core, for notes of FAST's Figures 2 and 10."""
    return CpuTopology.detect().shares("core")


def processors() -> int:
    """Return how many processors this machine has, for a note of FAST's Figure 2."""
    return len(CpuTopology.detect())


def machine_in_words() -> str:
    """Return this machine's processors, cores and caches in words, for notes of FAST's Figure 10."""
    return CpuTopology.detect().summary()


def alike(most: int, batches: int, threads: int) -> Float64:
    """Return how much of what two sampling threads read is the same in WikiTalk's generated stand-in, for FAST's Figure 11.

    Mean affinity over `batches` spread over the training events of a stand-in of `most` events; float64 [threads, threads], -1 on the
    diagonal.
    """
    data = prepared("wikitalk", most)
    deal = data.assignment(False, 1, BATCH, 0, max(-(-data.training_events // BATCH) // batches, 1))
    others, parts = data.negatives_of(False, 0, data.protocol.seed), [deal.rank_events(at, 0) for at in range(deal.iterations)]
    root_batches = [data.training.roots(own, others(own), own.start)[:2] for own in parts]
    affinities = thread_affinity(data.training.tcsr, root_batches, threads) / len(root_batches)
    np.fill_diagonal(affinities, -1.0)
    return affinities


def bound_here(near: Float64) -> str:
    """Return a sentence on whether sampling threads would be bound to cores on this machine, a note of FAST's Figure 11.

    near: how much of what each two threads read is the same, float64 [threads, threads], as `alike` returns it.
    """
    try:
        note = bind_by_affinity(near, CpuTopology.detect()).note
    except (UserError, MachineError) as error:
        note = str(error)
    return f"Executed without binding: {note}." if note else "Executed with threads bound where the last rung says so."


def of_pairs(near: Float64) -> list[float]:
    """Return how much of what two sampling threads read is the same, for each pair of threads, for FAST's Figure 11.

    near: float64 [threads, threads], as `alike` returns it.
    """
    return [float(one) for one in near[np.triu_indices(len(near), 1)]]
