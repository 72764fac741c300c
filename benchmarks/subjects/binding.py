"""Sampling threads bound by affinity (FAST, section 4.4) take less time than bound in order, at random, or not at all.

`measured` runs on this machine: bound threads have a part of a batch each, unbound ones take what comes next; other work on a bound
thread's CPU is waited for: then the mean of batches is far above their median. `modelled` counts hits of each level of cache
(batching.streams.sampling.locality) on the server of FAST's section 6.1: two sockets of 20 cores of two threads. Unbound threads have a
core each as far as cores last; pairs share a core: in order, those of threads that follow one another. `beyond` a level, in per mille of
all that is read.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.streams import BATCH, batches, events_of

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, Roots, thread_affinity
from chronoscale.batching.streams.sampling.locality import hit_rates, sampler_reads
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity, place_pairs
from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.cuda_ext.sampling.cpu_topology import Cpu, CpuTopology
from chronoscale.datasets.streams.tcsr import TCSR

FANOUT = 10
PAPER = CpuTopology(tuple(Cpu(n, n % 40, n % 40, n % 40 // 20, n % 40 // 20, n % 40 // 20) for n in range(80)))
Draw = Callable[[int], list[list[int]]]  # from a seed to the CPUs of all threads, batch by batch


def sampled(name: str, count: int) -> tuple[TCSR, list[Roots]]:
    """Return a stream's T-CSR and its last batches of roots."""
    stream = events_of(name)
    return TCSR.of(stream), list(batches(stream, max(0, len(stream) - count * BATCH)))


def measured(name: str, count: int, threads: int, setting: Setting) -> Passes:
    """Time batches on all processors of this process, whatever they share."""
    graph, roots = sampled(name, count)
    numbers = [cpu.number for cpu in CpuTopology.detect().cpus][:threads]
    ways: dict[str, list[int]] = {"unbound": [], "in order": numbers, "at random": np.random.default_rng(0).permutation(numbers).tolist()}
    for similarity in SIMILARITIES:
        if (binding := bind_by_affinity(thread_affinity(graph, roots, len(numbers), similarity=similarity), CpuTopology.detect())).cpus:
            ways[f"affinity, {similarity}"] = list(binding.cpus)

    def epoch(cpus: list[int]) -> dict[str, float]:
        with bound_threads.threads_bound_to(cpus):
            of = (partial(graph.sample, *batch, FANOUT, threads=0 if cpus else len(numbers)) for batch in roots)
            spent = [seconds_of(call) for call in of]
        return {"seconds": statistics.fmean(spent), "median batch, s": statistics.median(spent)}

    return in_turns({way: partial(epoch, cpus) for way, cpus in ways.items()}, setting.repeats)


def scattered(threads: int, rng: np.random.Generator) -> list[int]:
    """Return CPUs as a system spreads threads that it knows nothing of: on different cores as far as they last."""
    cores = [rng.permutation([cpu.number for cpu in group]).tolist() for group in PAPER.groups("core")]
    rounds = [[core[at] for core in cores if len(core) > at] for at in range(max(map(len, cores)))]
    return [cpu for one in rounds for cpu in rng.permutation(one).tolist()][:threads]


def placements(graph: TCSR, roots: list[Roots], threads: int) -> dict[str, Draw]:
    """Return how each way places threads; those that have no chance in them ignore the seed."""
    count, alike, own = len(roots), np.zeros((threads, threads)), np.arange(threads).tolist()

    def in_pairs(order: list[int]) -> list[list[int]]:
        return [list(place_pairs([tuple(order[at : at + 2]) for at in range(0, threads, 2)], alike, PAPER).cpus)] * count

    def moved(seed: int) -> list[list[int]]:
        rng = np.random.default_rng(seed)
        return [rng.permutation(scattered(threads, rng)).tolist() for _ in range(count)]

    ways: dict[str, Draw] = {
        "unbound, moved in every batch": moved,
        "unbound, never moved": lambda seed: moved(seed)[:1] * count,
        "pairs at random": lambda seed: in_pairs(np.random.default_rng(seed).permutation(own).tolist()),
        "pairs in order": lambda seed: in_pairs(own),
    }
    for similarity in SIMILARITIES:
        chosen = bind_by_affinity(thread_affinity(graph, roots, threads, similarity=similarity), PAPER)
        assert not chosen.note, chosen.note
        ways[f"affinity, {similarity}"] = lambda seed, cpus=list(chosen.cpus): [cpus] * count  # type: ignore[misc]
    return ways


def modelled(name: str, count: int, threads: int, setting: Setting) -> Passes:
    """Count hits; a pass is a seed."""
    graph, roots = sampled(name, count)
    read = [sampler_reads(graph, one, FANOUT, threads) for one in roots]

    def once(draw: Draw, seed: Iterator[int]) -> dict[str, float]:
        start = time.perf_counter()
        rates = np.array(hit_rates(read, draw(next(seed)), PAPER))
        beyond = 1000 * np.cumprod(1 - rates)
        hits = {f"L{level}, %": 100 * float(rate) for level, rate in enumerate(rates, 1)}
        return {"seconds": time.perf_counter() - start, **hits, **{f"beyond L{level}, ‰": float(beyond[level - 1]) for level in (2, 3)}}

    ways = placements(graph, roots, threads)
    return in_turns({way: partial(once, draw, iter(range(setting.repeats))) for way, draw in ways.items()}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams, measured here with all cores and modelled with 8 and 40 threads."""
    for name in ("hubs-9000-400",) if quick else ("us_flights_2001", "hubs-1000000-500000"):
        count, cores = (2, 2) if quick else (100, os.cpu_count() or 1)
        yield Case({"what": "measured", "stream": name, "batches": count, "bound": cores}, partial(measured, name, count, cores))
        for threads in (4,) if quick else (8, 40):
            parameters = {"what": "modelled", "stream": name, "batches": count, "bound": threads}
            yield Case(parameters, partial(modelled, name, count, threads))


SUBJECT = Subject(cases, 9)
