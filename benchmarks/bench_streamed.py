"""Rows a second of an epoch that no memory holds, and the memory that it takes: DistDGL on 10,000 snapshots (REAL §7.5, App. G).

    python benchmarks/bench_streamed.py [GPUS ...]

Stretch by stretch, planned, replayed and added up, on one core. Counts of the graph are drawn as `dygraph_10k` has them, times 100; parts
hold even shares, as where METIS cannot cut. Reading a dataset and its partition is not in it.
"""

from __future__ import annotations

import platform
import resource
import sys
import time

import numpy as np

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.simulator import presets
from chronoscale.simulator.long_epochs.replay import replay_stretches
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

SCALE, SNAPSHOTS, LAYERS = 100, 10_000, (1, 2)
RANKS = (4, 64, 1024)


def main(counts: tuple[int, ...]) -> None:
    graph = EvolvingGraph(nodes=3000, edges=30_000, snapshots=SNAPSHOTS)
    stats = graph.statistics().scaled(SCALE)
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{'layers':>6}{'GPUs':>6}{'rows':>13}{'epoch s':>9}{'s':>7}{'rows/s':>12}{'peak GB':>9}")
    for layers in LAYERS:
        for ranks in counts:
            part = np.arange(ranks)
            rows = np.broadcast_to((stats.num_nodes + ranks - 1 - part) // ranks, (SNAPSHOTS, ranks))
            edges = (stats.edges[:, None] + ranks - 1 - part) // ranks
            halo = np.minimum(edges, stats.num_nodes - rows)
            work = Workload(graph.name, stats, model_shape("wd-gcn", 64, 64, layers), Hyper(), Partition(rows, edges, halo, halo))
            cluster = presets.scaled(presets.cluster("h200"), ranks)
            costs = DatasheetCosts(cluster.device)
            start = time.perf_counter()
            found = replay_stretches(DistDGL().stretches(work, ranks, costs), cluster, costs)
            seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            figures = f"{found.summary.epoch_s:>9.1f}{seconds:>7.1f}{found.rows / seconds:>12,.0f}{peak:>9.2f}"
            print(f"{layers:>6}{ranks:>6}{found.rows:>13,}{figures}")
            sys.stdout.flush()


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or RANKS)
