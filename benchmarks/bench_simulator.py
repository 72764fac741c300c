"""Tasks a second of the simulator, on schedules of a 10,000-snapshot workload (REAL §7.5).

    python benchmarks/bench_simulator.py

Replay is timed whole: durations, network, segments, event loop, trace. Planning is not.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from importlib.metadata import version

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.workload import ModelShape, Workload

REPEATS = 7
RANKS = (4, 64, 1024)


def main() -> None:
    graph = EvolvingGraph(nodes=2000, edges=20_000, snapshots=10_000)
    workload = Workload(graph.name, graph.statistics(), ModelShape("tgcn", "gcn", "gru", 2, 32, 32, 1, 10_000))
    print(
        f"{platform.machine()}, Python {platform.python_version()}, SimPy {version('simpy')}, NumPy {version('numpy')}, {REPEATS} repeats"
    )
    print(f"{'strategy':<12}{'GPUs':>6}{'tasks':>9}{'waits':>9}{'median s':>10}{'min':>7}{'max':>7}{'tasks/s':>12}")
    for ranks in RANKS:
        cluster = presets.scaled(presets.cluster("h200"), ranks)
        costs = DatasheetCosts(cluster.device)
        for name, each, reuse in (("psg", 1, Reuse()), ("real-reuse", 2, Reuse(snapshots=True, groups=True))):
            schedule = lower(name, workload, deal(workload.groups, ranks, each), reuse, costs)
            replay(schedule, cluster, costs)
            seconds = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                replay(schedule, cluster, costs)
                seconds.append(time.perf_counter() - start)
            middle, rate = statistics.median(seconds), len(schedule) / statistics.median(seconds)
            spread = f"{middle:>10.3f}{min(seconds):>7.3f}{max(seconds):>7.3f}"
            print(f"{name:<12}{ranks:>6}{len(schedule):>9,}{len(schedule.dep):>9,}{spread}{rate:>12,.0f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
