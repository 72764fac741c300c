"""Probes span what strategies ask of a fitted cost model: every descriptor of every schedule lies in the range that was measured."""

import numpy as np
import pytest

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.partition import Cut
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.snapshots import probe
from chronoscale.real_exec.snapshots.probe import probes
from chronoscale.simulator import presets
from chronoscale.strategies.costs import RANGED, DatasheetCosts
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = {
    "growth": GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges(),
    "evolving": EvolvingGraph(400, 2000, snapshots=30, churn=0.05).sequence().without_self_edges(),
}


SHAPES = [*(("wd-gcn", layers, size) for layers, size in ((1, 4), (2, 4), (1, 1), (1, 2))), ("gat-lstm", 1, 4), ("evolvegcn-h", 2, 4)]


def in_turn(things, ranks):
    """(graph, ranks, thing): every thing on both graphs, one rank count on one of them and the other on the other."""
    return [(graph, ranks[(i + j) % 2], thing) for i, graph in enumerate(GRAPHS) for j, thing in enumerate(things)]


@pytest.mark.parametrize(("graph", "ranks", "name", "layers", "size"), [(g, r, *shape) for g, r, shape in in_turn(SHAPES, (1, 2))])
def test_every_descriptor_is_in_range(graph, ranks, name, layers, size):
    snapshots, model, hyper = GRAPHS[graph], model_shape(name, 8, 8, layers), Hyper(group_size=size)
    found = list(probes(snapshots, model, hyper, ranks))
    assert len({p.label for p in found}) == len(found)
    work = Workload("w", statistics_of(snapshots), model, hyper)
    for planner in of("snapshots").values():
        if planner.kind == "groups":
            covers(found, planner.plan(work, ranks, COSTS))


@pytest.mark.parametrize(("graph", "ranks", "model"), in_turn(MODELS, (1, 3)))
def test_every_descriptor_of_a_cell_is_in_range(graph, ranks, model, monkeypatch):
    """Whatever the cut: here another than the windows were cut by."""
    snapshots, shape, hyper = GRAPHS[graph], model_shape(model, 8, 8, 2), Hyper()
    first, second = (np.random.default_rng(seed).integers(0, ranks, snapshots.num_nodes).astype(np.int32) for seed in (0, 1))
    monkeypatch.setattr(probe, "metis", lambda *_: first)
    work = Workload("w", statistics_of(snapshots), shape, hyper, Partition(*Cut(second, ranks).count(snapshots)))
    for name, kind in (("esdg", "snapshots"), ("distdgl", "parts")):
        found = list(probes(snapshots, shape, hyper, ranks, [kind]))
        assert len({p.label for p in found}) == len(found)
        covers(found, strategy(name).plan(work, ranks, COSTS))


def covers(found, asked):
    """Every descriptor asked for was measured, within the slack of a fit."""
    for op in {Op(code) for code in np.unique(asked.op)} - COLLECTIVES:
        for width in np.unique(asked.width[asked.op == op]):
            for column in RANGED:
                seen = np.concatenate([getattr(p.schedule, column)[(p.schedule.op == op) & (p.schedule.width == width)] for p in found])
                wanted = getattr(asked, column)[(asked.op == op) & (asked.width == width)]
                assert seen.min() * 0.9 <= wanted.min() and wanted.max() <= seen.max() * 1.1, (asked.name, op, column)
