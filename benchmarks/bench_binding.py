"""Sampling threads bound by affinity, in order, at random, and not at all: measured here, and modelled on a described machine.

    python benchmarks/bench_binding.py [--streams us_flights_2001 generated] [--threads 4] [--fanout 10] [--batches 100] [--repeats 9]
        [--machine FILE] [--modelled 8 40] [--seeds 3]

Batches of 2,000 events with their sources, destinations and as many random nodes for roots, the last of the stream; a repeat goes through
all of them, and contestants take turns. Bound threads have a part of a batch each (FAST, section 4.4), unbound ones take what comes next.
Other work on a bound thread's CPU is waited for: then the mean of batches is far above their median.

The second table is a model (datasets.streams.locality) of the server of FAST's section 6.1 (two sockets of a Xeon Gold 6133: 20 cores of
two threads, an L2 of 1 MB a core and an L3 of 27.5 MB a socket), or of a machine that `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE` has described
in FILE: how often each level of cache has what is read of the T-CSR, in per cent of what reaches it, and how much of all that is read comes
from beyond a level. Unbound threads have a core each as far as cores last, on any socket. Pairs share a core: in order, those of threads
that follow one another. Mean and range of seeds where something is drawn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from bench_sampler import BATCH, hubs

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, Roots, affinity
from chronoscale.batching.streams.sampling.locality import hit_rates, reads
from chronoscale.batching.streams.sampling.thread_binding import by_affinity, placed
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.sampling import bound_threads as crew
from chronoscale.cuda_ext.sampling.cpu_topology import Cpu, CpuTopology
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

UNBOUND = "unbound"
Way = tuple[Callable[[int], list[list[int]]], bool]  # where threads run, of a seed; whether it is drawn


def paper() -> CpuTopology:
    """Two sockets of 20 cores of two threads."""
    return CpuTopology(tuple(Cpu(n, n % 40, n % 40, n % 40 // 20, n % 40 // 20, n % 40 // 20) for n in range(80)))


def last(stream: EventStream, count: int) -> list[Roots]:
    rng, found = np.random.default_rng(1), []
    for first in range(max(0, len(stream) - count * BATCH), len(stream), BATCH):
        src, dst = stream.src[first : first + BATCH], stream.dst[first : first + BATCH]
        node = np.concatenate([src, dst, rng.integers(0, stream.num_nodes, len(src)).astype(np.int32)])
        found.append((node, np.full(len(node), first, np.int32)))
    return found


def measured(graph: TCSR, batches: list[Roots], threads: int, fanout: int, repeats: int) -> None:
    """All processors of this process in turn, whatever they share: what binding alone does is seen here, sharing where there is some."""
    numbers = [cpu.number for cpu in CpuTopology.detect().cpus][:threads]
    drawn = np.random.default_rng(0).permutation(numbers).tolist()
    ways: dict[str, list[int]] = {UNBOUND: [], "in order": numbers, "at random": drawn}
    for similarity in SIMILARITIES:
        if (found := by_affinity(affinity(graph, batches, len(numbers), similarity=similarity), CpuTopology.detect())).cpus:
            ways[f"affinity, {similarity}"] = list(found.cpus)
    times: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(repeats + 1):
        for way, cpus in ways.items():
            with crew.threads_bound_to(cpus):
                times[way].append(list(epoch(graph, batches, fanout, 0 if cpus else len(numbers))))
    print("| threads | bound | ms a batch | times unbound | median batch, ms |\n|---|---|---|---|---|")
    slow = statistics.median(map(statistics.fmean, times[UNBOUND][1:]))
    for way, seconds in times.items():
        low, middle, high = statistics.quantiles(map(statistics.fmean, seconds[1:]), n=4)
        usual = statistics.median(one for repeat in seconds[1:] for one in repeat)
        spread = f"{1e3 * middle:.3f} (±{(high - low) / 2 / middle:.0%})"
        print(f"| {len(numbers)} | {way} | {spread} | {slow / middle:.2f} | {1e3 * usual:.3f} |", flush=True)


def epoch(graph: TCSR, batches: list[Roots], fanout: int, threads: int) -> Iterator[float]:
    """Seconds of each batch."""
    for node, before in batches:
        start = time.perf_counter()
        graph.sample(node, before, fanout, threads=threads)
        yield time.perf_counter() - start


def scattered(topology: CpuTopology, threads: int, rng: np.random.Generator) -> list[int]:
    """As a system spreads threads that it knows nothing of: on different cores as far as they last."""
    cores = [rng.permutation([cpu.number for cpu in group]).tolist() for group in topology.groups("core")]
    rounds = [[core[at] for core in cores if len(core) > at] for at in range(max(map(len, cores)))]
    return [cpu for one in rounds for cpu in rng.permutation(one).tolist()][:threads]


def ways_to_place(graph: TCSR, batches: list[Roots], threads: int, topology: CpuTopology) -> dict[str, Way]:
    """For each a draw of where threads run, batch by batch; those that have no chance in them come with one seed."""
    count, alike, own = len(batches), np.zeros((threads, threads)), np.arange(threads).tolist()

    def in_pairs(order: list[int]) -> list[list[int]]:
        return [list(placed([tuple(order[at : at + 2]) for at in range(0, threads, 2)], alike, topology).cpus)] * count

    def moved(seed: int) -> list[list[int]]:
        rng = np.random.default_rng(seed)
        return [rng.permutation(scattered(topology, threads, rng)).tolist() for _ in range(count)]

    found: dict[str, Way] = {
        "unbound, moved in every batch": (moved, True),
        "unbound, never moved": (lambda seed: moved(seed)[:1] * count, True),
        "pairs at random": (lambda seed: in_pairs(np.random.default_rng(seed).permutation(own).tolist()), True),
        "pairs in order": (lambda _: in_pairs(own), False),
    }
    for similarity in SIMILARITIES:
        chosen = by_affinity(affinity(graph, batches, threads, similarity=similarity), topology)
        if chosen.note:
            print(chosen.note)
            return {}
        found[f"affinity, {similarity}"] = (lambda _, cpus=list(chosen.cpus): [cpus] * count, False)  # type: ignore[misc]
    return found


def modelled(graph: TCSR, batches: list[Roots], threads: int, fanout: int, topology: CpuTopology, seeds: int) -> None:
    read = [reads(graph, roots, fanout, threads) for roots in batches]
    for way, (places, drawn) in ways_to_place(graph, batches, threads, topology).items():
        rates = np.array([hit_rates(read, places(seed), topology) for seed in range(seeds if drawn else 1)])
        beyond = 1000 * np.cumprod(1 - rates, axis=1)  # of all that is read
        shown = [ranged(column) for column in (*(100 * rates.T), *beyond.T[1:])]
        print(f"| {threads} | {way} | {' | '.join(shown)} |", flush=True)


def ranged(numbers: np.ndarray) -> str:
    whole = f" ({numbers.min():.1f} to {numbers.max():.1f})" if np.ptp(numbers) >= 0.05 else ""
    return f"{numbers.mean():.1f}{whole}"


def siblings(topology: CpuTopology) -> str:
    shared = [name for level, name in (("core", "a core"), ("l2", "an L2 cache")) if topology.shares(level)]  # type: ignore[arg-type]
    return f"{topology.summary()}; {'CPUs share ' + ' or '.join(shared) if shared else 'no two CPUs share a core or an L2 cache'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", nargs="+", default=["us_flights_2001", "generated"])
    parser.add_argument("--machine", type=Path)
    parser.add_argument("--modelled", type=int, nargs="*", default=[8, 40])
    for name, default in (("threads", os.cpu_count() or 1), ("fanout", 10), ("batches", 100), ("repeats", 9), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    machine = CpuTopology.load(options.machine) if options.machine else paper()
    if max(options.modelled, default=0) > len(machine):
        parser.error(f"--modelled {max(options.modelled)}: the machine has {machine.summary()}")
    for name in options.streams:
        stream = hubs(1_000_000, 500_000) if name == "generated" else load(name)
        graph, batches = TCSR.of(stream), last(stream, options.batches)
        print(f"{name}: {len(stream):,} events, {stream.num_nodes:,} nodes, {len(batches)} batches, fan-out {options.fanout}; native "
              f"{versions()['cpu']}\n\nmeasured here, {siblings(CpuTopology.detect())}:\n")  # fmt: skip
        measured(graph, batches, options.threads, options.fanout, options.repeats)
        if options.modelled:
            print(f"\nmodelled, {siblings(machine)}:\n\n| threads | bound | L1, % | L2, % | L3, % | beyond L2, ‰ | beyond L3, ‰ |")
            print("|---|---|---|---|---|---|---|")
        for threads in options.modelled:
            modelled(graph, batches, threads, options.fanout, machine, options.seeds)
        print()


if __name__ == "__main__":
    main()
