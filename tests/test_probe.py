"""Probes span what strategies ask of a fitted cost model: every descriptor of every schedule lies in the range that was measured."""

import numpy as np
import pytest

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.statistics import statistics_of
from chronoscale.real_exec.probe import probes
from chronoscale.simulator import presets
from chronoscale.strategies.costs import RANGED, DatasheetCosts
from chronoscale.strategies.models import model_shape
from chronoscale.strategies.registry import STRATEGIES, strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.workload import Hyper, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = {
    "growth": GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges(),
    "evolving": EvolvingGraph(400, 2000, snapshots=30, churn=0.05).sequence().without_self_edges(),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("layers", "size"), [(1, 4), (2, 4), (1, 1), (1, 2)])
def test_every_descriptor_is_in_range(graph, ranks, layers, size):
    snapshots, model, hyper = GRAPHS[graph], model_shape("wd-gcn", 8, 8, layers), Hyper(group_size=size)
    found = list(probes(snapshots, model, hyper, ranks))
    assert len({probe.label for probe in found}) == len(found)
    work = Workload("w", statistics_of(snapshots), model, hyper)
    for name in STRATEGIES:
        asked = strategy(name).plan(work, ranks, COSTS)
        for op in {Op(code) for code in np.unique(asked.op)} - COLLECTIVES:
            for width in np.unique(asked.width[asked.op == op]):
                for column in RANGED:
                    seen = np.concatenate([getattr(p.schedule, column)[(p.schedule.op == op) & (p.schedule.width == width)] for p in found])
                    wanted = getattr(asked, column)[(asked.op == op) & (asked.width == width)]
                    assert seen.min() * 0.9 <= wanted.min() and wanted.max() <= seen.max() * 1.1, (name, op, column)
