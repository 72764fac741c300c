"""Boundary-decay sampling beside sampling the recent neighbours, in one run.

    python benchmarks/bench_boundary.py [--datasets jodie_wikipedia us_flights_2001] [--fanout 10] [--batches 100] [--threads 1 2]

Nodes are dealt to two parts at random, an event goes with its source, and a tenth of the nodes, those with the most events, is shared. The
roots are the ends of the first part's events in the last batches of 2,000, and as many random nodes; a repeat goes through all of them, and
contestants take turns. The ratio is of times of the same repeat: median, and the range of its middle half.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

BATCH, SHARE = 2000, 0.1
Roots = list[tuple[np.ndarray, np.ndarray]]


def cut(stream: EventStream) -> EventPartition:
    rng = np.random.default_rng(0)
    node = rng.integers(0, 2, stream.num_nodes).astype(np.int32)
    event = node[stream.src]
    degree = np.bincount(stream.src, minlength=stream.num_nodes) + np.bincount(stream.dst, minlength=stream.num_nodes)
    node[np.argsort(-degree)[: int(SHARE * stream.num_nodes)]] = SHARED
    return EventPartition(node, event, 2, "random")


def own(stream: EventStream, parts: EventPartition, count: int) -> Roots:
    rng, found = np.random.default_rng(1), []
    for first in range(max(len(stream) // BATCH - count, 0) * BATCH, len(stream) - BATCH + 1, BATCH):
        mine = first + np.flatnonzero(parts.event[first : first + BATCH] == 0)
        node = np.concatenate([stream.src[mine], stream.dst[mine], rng.integers(0, stream.num_nodes, mine.size).astype(np.int32)])
        found.append((node, np.full(node.size, first, np.int32)))
    return found


def contestants(stream: EventStream, seat: LocalPart, fanout: int, threads: int) -> dict[str, Callable[[np.ndarray, np.ndarray], object]]:
    graph, decay = TCSR.of(stream), 1 / float(np.ptp(stream.t))
    cases = {
        "theta 0.1": Boundary(0.1, complete=False),
        "theta 0.1, decay": Boundary(0.1, decay, complete=False),
        "theta 0.1, decay, completed": Boundary(0.1, decay),
        "theta 0, completed": Boundary(0.0),
    }
    found: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
        "recent": lambda node, before: graph.sample(node, before, fanout, threads=threads)
    }
    for name, of in cases.items():
        found[name] = lambda node, before, of=of: boundary.sample(graph, stream.t, seat, node, before, fanout, of, 0, threads)  # type: ignore[misc]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["jodie_wikipedia", "us_flights_2001"])
    for name, default in (("fanout", 10), ("batches", 100), ("repeats", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    print(f"native {versions()['cpu']}; fan-out {options.fanout}\n")
    print("| stream | threads | sampler | µs a root | times recent | slots a root | remote, % |\n|---|---|---|---|---|---|---|")
    for dataset in options.datasets:
        stream = load(dataset)
        parts = cut(stream)
        roots = own(stream, parts, options.batches)
        total = sum(len(node) for node, _ in roots)
        here = parts.here(0)
        for threads in options.threads:
            calls = contestants(stream, LocalPart(parts, 0), options.fanout, threads)
            times: dict[str, list[float]] = {who: [] for who in calls}
            for _ in range(options.repeats + 1):
                for who, call in calls.items():
                    start = time.perf_counter()
                    for case in roots:
                        call(*case)
                    times[who].append(time.perf_counter() - start)
            for who, call in calls.items():
                samples = [call(*case) for case in roots]
                events, nodes = (np.concatenate([getattr(one, name).ravel() for one in samples]) for name in ("event", "neighbor"))
                near = (parts.event[events] == 0) & here[nodes] & (events >= 0)
                slots = int((events >= 0).sum())
                ratios = [mine / base for mine, base in zip(times[who][1:], times["recent"][1:], strict=True)]
                low, middle, high = statistics.quantiles(ratios, n=4)
                spent = 1e6 * statistics.median(times[who][1:]) / total
                print(f"| {dataset} | {threads} | {who} | {spent:.3f} | {middle:.2f} ({low:.2f} to {high:.2f}) | {slots / total:.2f} | "
                      f"{100 * (slots - near.sum()) / slots:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
