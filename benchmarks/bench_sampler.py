"""Temporal neighbours a second: the native sampler beside a vectorised NumPy one and beside what memory allows, in one run.

    python benchmarks/bench_sampler.py [--events 1000000] [--nodes 50000] [--fanout 10] [--threads 1 2] [--repeats 9]

A stream whose ends follow a power law is gone through in batches of 2,000 events, whose sources, destinations and as many random nodes are
the roots; a repeat is an epoch, and contestants take turns. NumPy's `recent` searches one sorted array of (node, event) keys.
The roofline: bytes that must be read and written (roots, row ends, entries, results), each once, at the speed at which one thread copies.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.sampling.temporal import POLICIES
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

BATCH = 2000
Roots = list[tuple[np.ndarray, np.ndarray]]


def hubs(events: int, nodes: int) -> EventStream:
    rng = np.random.default_rng(0)
    ids = rng.permutation(nodes).astype(np.int32)
    src, dst = (ids[(rng.pareto(0.8, events) * 20).astype(np.int64) % nodes] for _ in range(2))
    return EventStream(nodes, src, dst, np.arange(events))


def batches(stream: EventStream) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    for first in range(0, len(stream), BATCH):
        src, dst = stream.src[first : first + BATCH], stream.dst[first : first + BATCH]
        node = np.concatenate([src, dst, rng.integers(0, stream.num_nodes, len(src)).astype(np.int32)])
        yield node, np.full(len(node), first, np.int32)


def in_numpy(graph: TCSR, fanout: int) -> Callable[[np.ndarray, np.ndarray], int]:
    keys = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)) << 32 | graph.event

    def sample(node: np.ndarray, before: np.ndarray) -> int:
        end = np.searchsorted(keys, node.astype(np.int64) << 32 | before)
        at = end[:, None] - np.arange(fanout, 0, -1)
        there = at >= graph.indptr[node][:, None]
        neighbor, event = (np.where(there, column[at], -1) for column in (graph.neighbor, graph.event))
        return int(there.sum()) + 0 * (neighbor.size + event.size)

    return sample


def copied(size: int) -> float:
    """Bytes read and written a second by one thread's copy of as much memory."""
    source, into = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        np.copyto(into, source)
        times.append(time.perf_counter() - start)
    return 2 * size / statistics.median(times)


def epoch(sample: Callable[[np.ndarray, np.ndarray], int], roots: Roots) -> tuple[float, int]:
    """Seconds in the sampler, and edges."""
    spent, edges = 0.0, 0
    for node, before in roots:
        start = time.perf_counter()
        edges += sample(node, before)
        spent += time.perf_counter() - start
    return spent, edges


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("events", 1_000_000), ("nodes", 50_000), ("fanout", 10), ("repeats", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    stream = hubs(options.events, options.nodes)
    start = time.perf_counter()
    graph = TCSR.of(stream)
    built, roots = time.perf_counter() - start, list(batches(stream))
    contestants: dict[tuple[str, int], Callable[[np.ndarray, np.ndarray], int]] = {("numpy, recent", 1): in_numpy(graph, options.fanout)}
    for policy in POLICIES:
        for threads in options.threads:
            contestants[policy, threads] = lambda node, before, p=policy, t=threads: int(  # type: ignore[misc]
                graph.sample(node, before, options.fanout, p, threads=t).counts.sum()
            )
    times: dict[tuple[str, int], list[float]] = {who: [] for who in contestants}
    edges = 0
    for _ in range(options.repeats + 1):
        for who, sample in contestants.items():
            spent, edges = epoch(sample, roots)
            times[who].append(spent)
    moved = sum(len(node) for node, _ in roots) * (4 + 4 + 16 + 4 + 8 * options.fanout) + 8 * edges
    limit = edges / (moved / copied(moved // 2))
    print(f"native {versions()['cpu']}; {len(stream):,} events, {stream.num_nodes:,} nodes, longest row {np.diff(graph.indptr).max():,}, "
          f"fan-out {options.fanout}; T-CSR built in {built:.3f} s; {edges:,} edges an epoch\n")  # fmt: skip
    print("| sampler | threads | million edges a second | a thread | of the roofline |\n|---|---|---|---|---|")
    for (who, threads), seconds in times.items():
        low, middle, high = statistics.quantiles([edges / s / 1e6 for s in seconds[1:]], n=4)
        share = middle / threads / (limit / 1e6)
        print(f"| {who} | {threads} | {middle:.1f} (±{(high - low) / 2 / middle:.0%}) | {middle / threads:.1f} | {share:.0%} |", flush=True)
    print(f"\nroofline: {limit / 1e6:.0f} million edges a second a thread, {moved / edges:.0f} bytes an edge")


if __name__ == "__main__":
    main()
