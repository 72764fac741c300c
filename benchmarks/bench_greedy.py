"""Algorithm 1 natively: `python benchmarks/bench_greedy.py` prints seconds by groups, candidate targets and GPUs."""

from __future__ import annotations

import time

import numpy as np

from chronoscale.cuda_ext.scheduling.greedy import pair_groups

CASES = [(n, 0, gpus) for n in (500, 1000, 2000) for gpus in (8, 64)] + [(9996, 64, gpus) for gpus in (4, 64, 512, 1024)]


def main() -> None:
    print("| groups | targets | GPUs | seconds, median of 5 (half of the interquartile range) |")
    print("|---|---|---|---|")
    for groups, targets, gpus in CASES:
        rng = np.random.default_rng(groups)
        times = rng.lognormal(0, 0.4, groups)
        reuse = times[:, None] * np.array([0.5, 0.4, 0.3])
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            pair_groups(times, reuse, gpus, targets, threads=2)
            taken.append(time.perf_counter() - start)
        low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75])
        print(f"| {groups:,} | {targets or 'all'} | {gpus:,} | {middle:.3f} (±{(high - low) / 2 / middle:.0%}) |", flush=True)


if __name__ == "__main__":
    main()
