"""REAL's schedulers: `python benchmarks/bench_scheduling.py` prints makespans beside a certified bound, seconds, and what the ILP proves.

The 10,000 snapshots of examples/real_figure15.yaml (h200 datasheet costs), windows of 12 months of the real monthly sequences where
CHRONOSCALE_DATA has them, and random groups. Seconds of the planners are CPU time of their one thread, medians of --repeats runs (half of
the interquartile range); of solvers, wall time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.scheduling.greedy import pair_groups
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.snapshots.data import workload
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real import greedy
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.greedy_plus import search
from chronoscale.strategies.real.ilp import ILPSettings, optimise
from chronoscale.strategies.real.seats import makespan, mates, seat
from chronoscale.strategies.snapshots.groups import Placement, deal

FIGURE = Path(__file__).parents[1] / "examples" / "real_figure15.yaml"


def timed(call: Callable[[], Any], repeats: int) -> tuple[Any, str]:
    taken = []
    for _ in range(repeats):
        start = time.thread_time()
        found = call()
        taken.append(time.thread_time() - start)
    low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75])
    return found, f"{middle:.2f} (±{(high - low) / 2 / middle:.0%})"


def of(experiment: Experiment) -> Benefit:
    return compute_benefit(workload(experiment), DatasheetCosts(presets.cluster(experiment.cluster).device))


def drawn(groups: int, sigma: float, share: float, seed: int = 0) -> Benefit:
    """Log-normal times; neighbours share up to `share` of the shorter one, less the farther apart."""
    rng = np.random.default_rng(seed)
    times, reuse = rng.lognormal(0, sigma, groups) * 1e6, np.zeros((groups, 3))
    for k in range(3):
        shorter = np.minimum(times[: groups - k - 1], times[k + 1 :])
        reuse[: groups - k - 1, k] = shorter * share * (3 - k) / 3 * rng.uniform(0.5, 1, len(shorter))
    return Benefit(times, reuse)


def heuristics(name: str, problem: Benefit, gpus: int, repeats: int) -> None:
    n = len(problem.times)
    pairs, seconds_g = timed(lambda: algorithm_1(problem, gpus), repeats)
    found, seconds_plus = timed(lambda: search(problem, gpus), repeats)
    least, seconds_bound = timed(lambda: lower_bound(problem, gpus), repeats)
    ours, dealt = check(seat(problem, found, gpus), problem), check(deal(n, gpus, 2), problem)
    printed = check(pairs, problem)
    print(
        f"| {name} | {n:,} | {gpus:,} | {least / 1e6:,.3f} | {ours / 1e6:,.3f} | {1 - least / ours:.2%} | {printed / ours:.3f} "
        f"| {dealt / ours:.3f} | {seconds_plus} | {seconds_g} | {seconds_bound} |",
        flush=True,
    )


def algorithm_1(problem: Benefit, gpus: int, targets: int | None = None) -> Placement:
    if targets is None:
        targets = 0 if len(problem.times) <= greedy.EXACT else greedy.THINNED
    found = pair_groups(problem.times, problem.reuse, gpus, targets, threads=1)
    return Placement(gpus, found.gpu.astype(np.int64), found.iteration.astype(np.int64), found.slot.astype(np.int64))


def thinned(name: str, problem: Benefit, gpus: int) -> None:
    exact, seconds = timed(lambda: algorithm_1(problem, gpus, 0), 1)
    few, seconds_few = timed(lambda: algorithm_1(problem, gpus, greedy.THINNED), 1)
    loads = [makespan(problem, mates(one), gpus) for one in (exact, few)]
    spans = [check(one, problem) for one in (exact, few)]
    print(
        f"| {name} | {len(problem.times):,} | {gpus} | {spans[1] / spans[0] - 1:+.2%} | {loads[1] / loads[0] - 1:+.2%} "
        f"| {seconds.split()[0]} | {seconds_few.split()[0]} |",
        flush=True,
    )


def programs(name: str, problem: Benefit, gpus: int, seconds: float, both: bool) -> None:
    start, certified = search(problem, gpus), lower_bound(problem, gpus)
    value = makespan(problem, start, gpus)
    print(f"\n{name}, {len(problem.times)} groups, {gpus} GPUs: REAL-G+ {value / 1e6:.4f} ms, certified gap {1 - certified / value:.2%}\n")
    print("| formulation | loads kept apart | gap asked | cut | solver | status | makespan / REAL-G+ | gap by the solver | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    cases: list[tuple[str, int, float, bool]] = [("compact", 200, 0.1, False), ("compact", 400, 0.03, False)]
    cases += [("published", 0, 0.1, False), ("published", 0, 0.1, True)] if both else []
    for formulation, levels, gap, cut in cases:
        how = ILPSettings(seconds, gap, formulation, levels=levels, always=True)  # type: ignore[arg-type]
        answer = optimise(problem, gpus, start, how, certified=certified if cut else 0.0)
        print(
            f"| {formulation} | {levels or 'all'} | {gap:.0%} | {'yes' if cut else 'no'} | {answer.solver} | {answer.status} "
            f"| {answer.objective / value:.4f} | {answer.to(answer.proved):.2%} | {answer.seconds:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a solver")
    options = parser.parse_args()
    set_threads(1)
    figure = of(load(FIGURE, {}))
    columns = "n | GPUs | bound, ms | real-g+, ms | gap | real-g / real-g+ | real-reuse / real-g+ | real-g+, s | real-g, s | bound, s"
    print(f"| groups of | {columns} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for gpus in (1, 4, 64, 512, 1024):
        heuristics("figure 15", figure, gpus, options.repeats)
    real = {}
    if "CHRONOSCALE_DATA" in os.environ:
        for name in ("math_overflow_monthly", "enron_monthly"):
            real[name] = of(Experiment.model_validate({"dataset": {"name": name, "window": 12}, "cluster": "h200"}))
            for gpus in (4, 8, 16):
                heuristics(f"{name}, 12 months", real[name], gpus, options.repeats)
    for groups, sigma, share, gpus in (
        (64, 0.4, 0.6, 8),
        (200, 0.4, 0.6, 16),
        (2000, 0.2, 0.5, 64),
        (2000, 0.4, 0.6, 64),
        (200, 0.7, 0.5, 16),
    ):
        heuristics(f"drawn, σ {sigma}, share {share}", drawn(groups, sigma, share), gpus, options.repeats)

    print("\n| groups of | n | GPUs | thinned over exact | with iterations refilled by load | exact, s | 64 targets, s |")
    print("|---|---|---|---|---|---|---|")
    for groups in (2000, 3000):
        part = Benefit(figure.times[:groups], figure.reuse[:groups])
        for gpus in (8, 64):
            thinned("figure 15", part, gpus)
            thinned("drawn, σ 0.4, share 0.6", drawn(groups, 0.4, 0.6), gpus)

    for seed in range(3):
        programs(f"drawn, σ 0.4, share 0.6, seed {seed}", drawn(64, 0.4, 0.6, seed), 8, options.seconds, seed == 0)
    programs("figure 15, first groups", Benefit(figure.times[:64], figure.reuse[:64]), 8, options.seconds, False)
    programs("drawn, small", drawn(12, 0.4, 0.6), 3, options.seconds, True)


if __name__ == "__main__":
    main()
