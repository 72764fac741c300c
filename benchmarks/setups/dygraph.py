"""The workload of REAL's section 7.5: an evolving graph of up to 10,000 snapshots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import COLUMNS
from chronoscale.strategies.workload import ModelShape, Workload


def workload(snapshots: int, times: int = 1) -> Workload:
    """Return a T-GCN of two layers on 2,000 nodes and 20,000 edges, whose snapshots come `times` over."""
    graph = EvolvingGraph(nodes=2000, edges=20_000, snapshots=snapshots)
    statistics = graph.statistics()
    if times > 1:
        statistics = replace(statistics, **{column: np.tile(getattr(statistics, column), times) for column in COLUMNS})
    return Workload(graph.name, statistics, ModelShape("tgcn", "gcn", "gru", 2, 32, 32, 1, snapshots))
