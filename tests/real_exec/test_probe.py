"""Probes span what strategies ask of a fitted cost model: every descriptor of every schedule lies in the range that was measured."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from pairwise import fast

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.snapshots import probe
from chronoscale.real_exec.snapshots.probe import probes
from chronoscale.simulator import presets
from chronoscale.strategies.costing.curves import RANGED, curves
from chronoscale.strategies.costs import UNUSED, DatasheetCosts, Fit, FittedCosts
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, FULL_HISTORY, RECENT_ONLY, RECENT_STATES, REMAPPED
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.snapshots.forms import must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Hyper, Partition, Recency, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = {
    "growth": GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges(),
    "evolving": EvolvingGraph(400, 2000, snapshots=30, churn=0.05).sequence().without_self_edges(),
}


SHAPES = [*(("wd-gcn", layers, size) for layers, size in ((1, 4), (2, 4), (1, 1), (1, 2))), ("gat-lstm", 1, 4), ("evolvegcn-h", 2, 4)]


def cut_anyhow(snapshots, count):
    """Chunks of equal sizes, for METIS, which takes seconds to start."""
    return Chunks(np.random.default_rng(count).permutation(np.arange(snapshots.num_nodes) % count).astype(np.int32), count)


def in_turn(things, ranks, quick):
    """(graph, ranks, thing): every thing on both graphs, one rank count on one of them and the other on the other. `quick`: indices of
    things that are fast on the first graph."""
    results = [(graph, ranks[(i + j) % 2], thing) for i, graph in enumerate(GRAPHS) for j, thing in enumerate(things)]
    return fast(results, lambda number, _: number in quick)


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "ranks", "shape"), in_turn(SHAPES, (1, 2), (1, 4, 5)))
def test_every_descriptor_is_in_range(graph, ranks, shape):
    name, layers, size = shape
    snapshots, model, hyper = GRAPHS[graph], model_shape(name, 8, 8, layers), Hyper(group_size=size)
    result = list(probes(snapshots, model, hyper, ranks, ("groups", "shared")))
    assert len({p.label for p in result}) == len(result)
    work = Workload("w", statistics_of(snapshots), model, hyper)
    for planner in of("snapshots").values():
        if planner.kind == "groups":
            covers(result, planner.plan(work, ranks, COSTS))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("graph", "model", "layers"), fast(list(product(GRAPHS, ("wd-gcn", "gat-lstm", "evolvegcn-o"), (1, 2))), lambda _, row: row[2] == 1)
)
def test_every_descriptor_of_folded_groups_is_in_range(graph, model, layers):
    """Of graphs, most of whose nodes have no edge in a group."""
    sparse = [replace(one, num_nodes=4 * one.num_nodes) for one in GRAPHS[graph]]
    snapshots, hyper = SnapshotSequence.from_snapshots(sparse), Hyper(task="degrees")
    shape = model_shape(model, 2, 8, layers, 2)
    work, result = Workload("w", statistics_of(snapshots), shape, hyper), list(probes(snapshots, shape, hyper, 1))
    for name in ("psg", "blad", "real-type1", "real-reuse", "real-g+"):
        schedule = strategy(name).plan(work, 1, COSTS)
        assert (schedule.nodes[schedule.tasks(Op.AGGREGATE)] < snapshots.num_nodes / 2).all()
        covers(result, schedule)
    covers(list(probes(snapshots, shape, hyper, 1, ["snapshots"])), strategy("esdg").plan(work, 1, COSTS))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("graph", "ranks", "model"), in_turn(MODELS, (1, 3), (0, 3, 5)))
def test_every_descriptor_of_a_cell_is_in_range(graph, ranks, model, monkeypatch):
    """Whatever the cut: here another than the windows were cut by."""
    snapshots, shape, hyper = GRAPHS[graph], model_shape(model, 8, 8, 2), Hyper()
    first, second = (np.random.default_rng(seed).integers(0, ranks, snapshots.num_nodes).astype(np.int32) for seed in (0, 1))
    monkeypatch.setattr(probe, "metis_partition", lambda *_: first)
    work = Workload("w", statistics_of(snapshots), shape, hyper, Partition(*VertexPartition(second, ranks).count(snapshots)))
    for name, kind in (("esdg", "snapshots"), ("distdgl", "parts")):
        result = list(probes(snapshots, shape, hyper, ranks, [kind]))
        assert len({p.label for p in result}) == len(result)
        covers(result, strategy(name).plan(work, ranks, COSTS))


BLOCKS = (FLAREDTDG, REMAPPED, FULL_HISTORY, RECENT_ONLY, RECENT_STATES)
WINDOWED = [("t-gcn", Decay(2, 4, 0.2), "exact"), ("evolvegcn-h", Decay(1, 3, 0.1), "exact"), ("mpnn-lstm", Decay(2, 0, 1.0), "exact")]
WINDOWED += [("t-gcn", Decay(1, 4, 0.3, lags=(4,)), "exact"), ("evolvegcn-o", Decay(2, 3, 0.5), "as-published")]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("graph", "ranks", "given"), in_turn(WINDOWED, (1, 2), (0, 1, 3)))
def test_every_descriptor_of_a_window_is_in_range(graph, ranks, given, monkeypatch, request):
    """Of every strategy on blocks, in any epoch: other draws of chunks than those that were timed."""
    (model, decay, variant), snapshots = given, GRAPHS[graph]
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(probe, "cut_into_chunks", cut_anyhow)
    hyper = Hyper(recency=Recency(decay, 16), variant=variant)
    shape = model_shape(model, 8, 2 if model == "evolvegcn-h" else 8, 2)  # it summarises as many nodes as it is wide
    result = list(probes(snapshots, shape, hyper, ranks, ["blocks"]))
    assert len({p.label for p in result}) == len(result)
    for each in result:
        assert each.schedule.kind == "blocks" and each.schedule.ranks == ranks
        assert each.parts.dtype == np.int32 and each.parts.shape == (each.snapshots.num_nodes,) and each.parts.max() < 16
    chunks = probe.cut_into_chunks(snapshots, 16)
    for planner, seed in product(BLOCKS, range(3)):
        work = Workload("w", statistics_of(snapshots), shape, replace(hyper, seed=seed), chunking=ExactChunking(snapshots, chunks))
        covers(result, planner.plan(work, ranks, COSTS))


def test_what_is_left_of_old_snapshots_is_in_range_where_chunks_are_uneven(monkeypatch):
    """One chunk has half of the nodes, the others two or three each: a single rank keeps a few nodes, or most."""
    snapshots, hyper, shape = GRAPHS["growth"], Hyper(recency=Recency(Decay(1, 3, 0.1), 16)), model_shape("t-gcn", 8, 8)
    uneven = Chunks(np.where(np.arange(64) < 32, 0, np.arange(64) % 15 + 1).astype(np.int32), 16)
    monkeypatch.setattr(probe, "cut_into_chunks", lambda *_: uneven)
    result = list(probes(snapshots, shape, hyper, 1, ["blocks"]))
    for seed in range(6):
        work = Workload("w", statistics_of(snapshots), shape, replace(hyper, seed=seed), chunking=ExactChunking(snapshots, uneven))
        covers(result, FLAREDTDG.plan(work, 1, COSTS))


def test_what_windows_time_is_what_was_planned(monkeypatch):
    """Every pass draws the same chunks; an epoch of training does not."""
    monkeypatch.setattr(probe, "cut_into_chunks", cut_anyhow)
    hyper, snapshots = Hyper(recency=Recency(Decay(1, 3, 0.2), 16)), GRAPHS["growth"]
    for each in probes(snapshots, model_shape("t-gcn", 8, 8, 1), hyper, 1, ["blocks"]):
        keeping = WindowRetention.of(each.schedule)
        drawn = [keeping.epoch(3, number).depth(16, keeping.decay, 1) for number in range(4)]
        assert all((depth == drawn[0]).all() for depth in drawn)
    others = [WindowRetention(hyper.recency.decay).epoch(3, number).depth(16, hyper.recency.decay, 1) for number in range(4)]
    assert any((depth != others[0]).any() for depth in others)


def test_old_snapshots_are_small_ones_and_large_ones(monkeypatch):
    """Probes of the dataset: its least and its most edges come first as well as last."""
    monkeypatch.setattr(probe, "cut_into_chunks", cut_anyhow)
    snapshots, hyper = GRAPHS["growth"], Hyper(recency=Recency(Decay(1, 3, 0.2), 16))
    edges = np.diff(snapshots.ptr)
    for each in list(probes(snapshots, model_shape("t-gcn", 8, 8, 1), hyper, 1, ["blocks"]))[:4]:
        result = np.diff(each.snapshots.ptr)
        assert {result[0], result[-1]} == {edges.min(), edges.max()}
        assert (np.diff(result) >= 0).all() == each.label.startswith("rising") and len(result) > hyper.recency.decay.window + 1


def covers(timed, requested):
    """Every descriptor asked for was measured, by the implementation that has it, within the slack of a fit."""
    measured = spans([probe.schedule for probe in timed])
    for curve, queries in spans([requested]).items():
        for name, (low, high) in queries.items():
            least, most = measured[curve][name]
            assert least * 0.9 <= low and high <= most * 1.1, (requested.name, str(curve), name, (low, high), (least, most))


TOYS = [(2, 1), (3, 2), (5, 0), (11, 3), (11, 14), (11, 100), (30, 14)]  # nodes, edges drawn a snapshot


DRAWN = [(nodes, edges, model) for nodes, edges in TOYS for model in ("t-gcn", "gat-lstm")]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("nodes", "edges", "model"), fast(DRAWN, lambda number, _: number in (0, 5, 8, 11)))
def test_probes_cover_what_a_toy_graph_asks_for(nodes, edges, model):
    """Every descriptor of every row of every form lies in the range that the probes span, with the slack that fitted costs allow."""
    rng = np.random.default_rng(nodes * edges)
    drawn = [Snapshot.from_edges(nodes, rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)) for _ in range(9)]
    snapshots = SnapshotSequence.from_snapshots(drawn, "toy").without_self_edges()
    shape, hyper = model_shape(model, 2, 2, 1), Hyper()
    work, count = Workload("toy", statistics_of(snapshots), shape, hyper), len(snapshots)
    timed = spans([probe.schedule for probe in probes(snapshots, shape, hyper, 1, ("groups", "shared"))])
    reuses = [(Reuse(), 1), (Reuse(pipeline=True), 2), (Reuse(snapshots=True), 1), (Reuse(snapshots=True, groups=True), 2)]
    reuses += [(Reuse(snapshots=True, groups=True, rows=True), each) for each in (1, 2)]
    requested = []
    for form, (reuse, each) in product(Form, reuses):
        forms = uniform_forms(count, form, form is Form.MAP or must_track(work)) if reuse.snapshots else uniform_forms(count)
        requested.append(lower("asked", work, deal(work.groups, 1, each), reuse, UNUSED, forms))
    for key, ranges in spans(requested).items():
        for name, (low, high) in ranges.items():
            least, most = timed[key][name]
            assert least * 0.9 <= low and high <= most * 1.1, (key, name)


@pytest.mark.slow
@pytest.mark.parametrize("edges", fast([3, 10, 60], lambda _, edges: edges == 10))
def test_forms_are_chosen_within_what_the_probes_have_measured(edges):
    """The choice asks for every snapshot that is read, in every form it may have, and for nothing else."""
    rng = np.random.default_rng(edges)
    drawn = [Snapshot.from_edges(11, rng.integers(0, 11, edges), rng.integers(0, 11, edges)) for _ in range(8)]
    snapshots = SnapshotSequence.from_snapshots(drawn, "toy").without_self_edges()
    shape, hyper = model_shape("wd-gcn", 8, 8, 2), Hyper(group_size=3)
    timed = spans([probe.schedule for probe in probes(snapshots, shape, hyper, 1, ("groups", "shared"))])
    each = {key: ({n: int(low) for n, (low, _) in r.items()}, {n: int(high) for n, (_, high) in r.items()}) for key, r in timed.items()}
    fits = tuple(
        Fit(item.op, item.width, "traffic", (1.0, 1.0, 1.0, 1.0), low, high, 0.1, 8, lane=item.lane, variant=item.variant)
        for item, (low, high) in each.items()
    )
    work = Workload("toy", statistics_of(snapshots), shape, hyper)
    for name in ("real-type1", "real-g+"):
        assert len(strategy(name).plan(work, 1, FittedCosts("here", fits, {})))


def spans(schedules):
    """Least and most of every descriptor, by curve."""
    results = {}
    for schedule in schedules:
        for curve, rows in curves(schedule, np.arange(len(schedule))):
            if Op[curve.op] not in COLLECTIVES:
                into = results.setdefault(curve, {})
                for name in RANGED:
                    column = getattr(schedule, name)[rows]
                    low, high = into.get(name, (column.min(), column.max()))
                    into[name] = min(low, column.min()), max(high, column.max())
    return results
