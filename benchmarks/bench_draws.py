"""Seconds of processor time for many draws of what is uncertain, on schedules of a 10,000-snapshot workload.

    python benchmarks/bench_draws.py

Draws are timed whole: durations, network, launches, factors, replays. Planning is not.
"""

from __future__ import annotations

import time

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.simulator import presets
from chronoscale.simulator.uncertainty.assumptions import effects
from chronoscale.simulator.uncertainty.draws import epoch_spans
from chronoscale.simulator.uncertainty.spec import CERTAIN, Stragglers, Uncertainty
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.workload import ModelShape, Workload

DRAWS, RANKS = 300, 1024
CASES = {"jitter": Uncertainty(0.05), "jitter, sway, a straggling node": Uncertainty(0.05, 0.05, Stragglers(1, "node"))}


def main() -> None:
    graph = EvolvingGraph(nodes=2000, edges=20_000, snapshots=10_000)
    workload = Workload(graph.name, graph.statistics(), ModelShape("tgcn", "gcn", "gru", 2, 32, 32, 1, 10_000))
    cluster = presets.scaled(presets.cluster("h200"), RANKS)
    costs = DatasheetCosts(cluster.device)
    for name, each, reuse in (("psg", 1, Reuse()), ("real-reuse", 2, Reuse(snapshots=True, groups=True))):
        schedule = lower(name, workload, deal(workload.groups, RANKS, each), reuse, costs)
        for said, uncertainty in CASES.items():
            begun = time.process_time()
            found = epoch_spans(schedule, cluster, costs, uncertainty, DRAWS, seed=0)
            seconds, mean = time.process_time() - begun, found.mean() / 1e6
            print(f"{name}, {len(schedule):,} rows, {said}: {DRAWS} draws in {seconds:.1f} s, mean {mean:.2f} ms")
        begun = time.process_time()
        told = effects(schedule, cluster, costs, CERTAIN, 0)
        print(f"{name}: {len(told)} assumptions in {time.process_time() - begun:.1f} s")


if __name__ == "__main__":
    main()
