"""The different ones of a batch's ids: the native kernel beside NumPy, and FAST's triples of what was sampled, in one run.

    python benchmarks/bench_distinct.py [--events 1000000] [--nodes 50000] [--fanout 10] [--batches 40] [--threads 1 2 4] [--repeats 9]

The batches are those of bench_sampler.py, the last of its epoch; a repeat goes through all of them, and contestants take turns. `distinct`
is of filled slots that lie one after another; `compressed` of slots as they are sampled, which leaves out those that are empty.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from bench_sampler import batches, hubs

from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.reference import unique_ids as unique_ids_reference
from chronoscale.cuda_ext.sampling.temporal import SampledNeighbors
from chronoscale.cuda_ext.sampling.unique_ids import compress_slots, unique_ids
from chronoscale.datasets.streams.tcsr import TCSR

Contestant = Callable[[np.ndarray, np.ndarray, np.ndarray], object]  # slots, counts, filled slots


def contestants(threads: list[int]) -> dict[str, Contestant]:
    found: dict[str, Contestant] = {
        "np.unique with inverse": lambda slots, counts, flat: np.unique(flat, return_inverse=True),
        "distinct, NumPy": lambda slots, counts, flat: unique_ids_reference.unique_ids(flat),
        "compressed, NumPy": lambda slots, counts, flat: unique_ids_reference.unique_ids(
            unique_ids_reference.filled_slots(slots, counts)[0]
        ),
    }
    for count in threads:
        found[f"distinct, {count} threads"] = lambda slots, counts, flat, t=count: unique_ids(flat, t)  # type: ignore[misc]
        found[f"compressed, {count} threads"] = lambda slots, counts, flat, t=count: compress_slots(slots, counts, t)  # type: ignore[misc]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("events", 1_000_000), ("nodes", 50_000), ("fanout", 10), ("batches", 40), ("repeats", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4])
    options = parser.parse_args()
    stream = hubs(options.events, options.nodes)
    graph, roots = TCSR.of(stream), list(batches(stream))[-options.batches :]
    start = time.perf_counter()
    hops: list[SampledNeighbors] = [graph.sample(node, before, options.fanout, threads=1) for node, before in roots]
    sampled = (time.perf_counter() - start) / len(hops)
    print(f"native {versions()['cpu']}; {len(stream):,} events, {stream.num_nodes:,} nodes, fan-out {options.fanout}; "
          f"{sum(int(hop.counts.sum()) for hop in hops) / len(hops):,.0f} slots a batch; sampled in {1e3 * sampled:.2f} ms\n")  # fmt: skip
    print("| ids | contestant | ms a batch | million ids a second | times np.unique |\n|---|---|---|---|---|")
    for name in ("neighbor", "event"):
        cases = [(slots, hop.counts, slots[slots >= 0]) for hop in hops if (slots := getattr(hop, name)) is not None]
        times: dict[str, list[float]] = {who: [] for who in contestants(options.threads)}
        for _ in range(options.repeats + 1):
            for who, call in contestants(options.threads).items():
                start = time.perf_counter()
                for case in cases:
                    call(*case)
                times[who].append((time.perf_counter() - start) / len(cases))
        ids = sum(len(flat) for *_, flat in cases) / len(cases)
        slowest = statistics.median(times["np.unique with inverse"][1:])
        for who, seconds in times.items():
            low, middle, high = statistics.quantiles(seconds[1:], n=4)
            spread = f"{1e3 * middle:.3f} (±{(high - low) / 2 / middle:.0%})"
            print(f"| {name} | {who} | {spread} | {ids / middle / 1e6:.0f} | {slowest / middle:.1f} |", flush=True)


if __name__ == "__main__":
    main()
