"""Seconds from a plan to a trace, step by step and by both engines, of an epoch of 10,000 snapshots (REAL §7.5) on 4 to 4,096 GPUs.

    python benchmarks/bench_simulator.py [GPUS ...]

Prints Markdown: medians of repeats, with the range of the whole, which is `engine.replay`: durations, network, launches, the native engine,
the trace; and of the whole with contention, for which traffic and shares are made and the native engine replays rows that share. SimPy
replays up to 500,000 tasks, none of which share. GPUS of 0 stands for more than 10^7 tasks on 1,024: PSG, the snapshots over and over.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import COLUMNS
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.contention import contended_shares
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.workload import ModelShape, Workload

GPUS, NAMES = (4, 16, 64, 256, 1024, 4096, 0), ("psg", "blad", "real-g+")
LARGE, TURNS = 1024, 33  # more than 10^7 tasks: GPUs, and how often the snapshots come
REPEATS, SIMPY_TASKS = 5, 500_000
STEPS = ("plan", "durations", "network", "launches", "native", "SimPy", "traffic", "shares", "shared")
P = ParamSpec("P")
Result = TypeVar("Result")


def measure(name: str, work: Workload, gpus: int) -> None:
    """A row of the table."""
    cluster = presets.scaled(presets.cluster("h200"), gpus)
    costs, seconds = DatasheetCosts(cluster.device), dict[str, list[float]]()

    def timed(step: str, act: Callable[P, Result], *of: P.args, **also: P.kwargs) -> Result:
        begin = time.perf_counter()
        result = act(*of, **also)
        seconds.setdefault(step, []).append(time.perf_counter() - begin)
        return result

    schedule = timed("plan", strategy(name).plan, work, gpus, costs)
    for _ in range(REPEATS):
        ns, _ = timed("durations", durations, costs, schedule)
        rows, joined = timed("network", collective_times.times, schedule, cluster)
        ns[rows] = joined
        launches = timed("launches", Launches.of, schedule, ns, costs.launch_ns)
        timed("native", replay_times, schedule, cluster.device, ns, launches, None)
        crossed = timed("traffic", LinkTraffic.of, schedule, cluster, collective_times.TimedCollectives.of(schedule, cluster))
        shares = timed("shares", contended_shares, schedule, cluster, costs, ns, crossed)
        timed("shared", replay_times, schedule, cluster.device, ns, launches, shares)
        timed("alone", replay, schedule, replace(cluster, contention=False), costs)
        timed("whole", replay, schedule, cluster, costs)
        if len(schedule) <= SIMPY_TASKS:
            timed("SimPy", replay_times, schedule, cluster.device, ns, launches, None, "simpy")
    middle = {step: statistics.median(found) for step, found in seconds.items()}
    steps = " | ".join(f"{middle[step]:.3f}" if step in middle else "" for step in STEPS)
    wholes = [f"{middle[step]:.3f} ({min(seconds[step]):.3f}–{max(seconds[step]):.3f})" for step in ("alone", "whole")]
    rates = [f"{len(schedule) / middle[step] / 1e6:.1f}" for step in ("alone", "whole")]
    figures = [f"{name} | {gpus:,} | {len(schedule):,} | {steps}", *(cell for pair in zip(wholes, rates, strict=True) for cell in pair)]
    print(f"| {' | '.join(figures)} |", flush=True)


def main() -> None:
    graph = EvolvingGraph(nodes=2000, edges=20_000, snapshots=10_000)
    stats, shape = graph.statistics(), ModelShape("tgcn", "gcn", "gru", 2, 32, 32, 1, 10_000)
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "simpy"))
    device, kernels = device_name(torch.device("cpu")), versions()["cpu"]
    print(f"{device}, one core, Python {platform.python_version()}, {packages}, native kernels {kernels}, {REPEATS} repeats; seconds\n")
    steps = " | ".join(STEPS)
    print(f"| strategy | GPUs | tasks | {steps} | whole, alone | 10⁶ tasks/s | whole, contention | 10⁶ tasks/s |")
    print("|---|" + "---:|" * (len(STEPS) + 6))
    for gpus in [int(one) for one in sys.argv[1:]] or GPUS:
        for name in NAMES if gpus else ("psg",):
            many = stats if gpus else replace(stats, **{column: np.tile(getattr(stats, column), TURNS) for column in COLUMNS})
            measure(name, Workload(graph.name, many, shape), gpus or LARGE)


if __name__ == "__main__":
    main()
