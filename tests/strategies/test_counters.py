"""Counters: FLOPs and bytes of schedules against counts by hand, entry by entry."""

import numpy as np
import pytest

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.forms import must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.rows import SCORE
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = {
    "evolving": EvolvingGraph(60, 70, snapshots=9, churn=0.05, seed=1).sequence().without_self_edges(),
    "growth": GrowthGraph.rmat(32, 200, 9, 0.2, 2).sequence().without_self_edges(),
}
INPUTS, HIDDEN = 6, 5


def rows_of(snapshot):
    """In-neighbours of every node, itself included."""
    rows = {v: {v} for v in range(snapshot.num_nodes)}
    for u, v in zip(snapshot.src.tolist(), snapshot.dst.tolist(), strict=True):
        rows[v].add(u)
    return rows


def out_degree(rows):
    degree = dict.fromkeys(rows, 0)
    for sources in rows.values():
        for u in sources:
            degree[u] += 1
    return degree


def gcn_entries(before, after):
    """Per touched row: entries whose weight c_u differs from one snapshot to the next, or the whole row where that is not more."""
    was, now = out_degree(before), out_degree(after)
    found = {}
    for v in after:
        changed = [u for u in before[v] | after[v] if (u in before[v]) != (u in after[v]) or was[u] != now[u]]
        if changed:
            found[v] = min(len(changed), len(after[v]))
    return found


def map_entries(before, after):
    """Per destination of a changed edge: how many changed."""
    return {v: len(before[v] ^ after[v]) for v in after if before[v] != after[v]}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("layers", [1, 2])
def test_every_row_is_counted_entry_by_entry(graph, model, form, layers):
    graphs = GRAPHS[graph]
    shape = model_shape(model, INPUTS, HIDDEN, layers)
    work = Workload("w", statistics_of(graphs), shape)
    attends, nodes = shape.spatial == "gat", graphs.num_nodes
    tracked = form is Form.MAP or must_track(work)
    schedule = lower(
        "x", work, deal(work.groups, 1, 2), Reuse(snapshots=True, groups=True), COSTS, uniform_forms(len(graphs), form, tracked)
    )
    adjacency = [rows_of(snapshot) for snapshot in graphs]
    counted = set()
    for task in range(len(schedule)):
        op, snapshot = Op(schedule.op[task]), int(schedule.unit[task] + schedule.step[task])
        width = INPUTS if schedule.layer[task] == 0 else HIDDEN
        entries = sum(len(sources) for sources in adjacency[snapshot].values()) if op in (Op.AGGREGATE, Op.H2D, Op.TRANSFORM) else 0
        per_entry = 2 * HIDDEN + SCORE if attends else 2 * width
        if op is Op.AGGREGATE:
            assert schedule.flops[task] == entries * per_entry
        elif op is Op.INCREMENT:
            found = (map_entries if attends else gcn_entries)(adjacency[snapshot - 1], adjacency[snapshot])
            assert schedule.flops[task] == sum(found.values()) * per_entry
            assert schedule.rows[task] == len(found)
        elif op is Op.TRANSFORM:
            touched = nodes
            if schedule.layer[task] == 0 and not attends and not shape.evolves_weights and schedule.step[task] > 0 and form is Form.DELTA:
                touched = len(gcn_entries(adjacency[snapshot - 1], adjacency[snapshot]))
            assert schedule.flops[task] == touched * 2 * width * HIDDEN
        elif op is Op.H2D:
            features = nodes * INPUTS * 4 if schedule.step[task] == 0 else 0
            assert schedule.bytes[task] - features == moved(
                adjacency, snapshot, form if schedule.step[task] else Form.FULL, attends, tracked
            )
        counted.add(op)
    assert {Op.AGGREGATE, Op.TRANSFORM, Op.H2D} <= counted and (form is not Form.DELTA or Op.INCREMENT in counted)


def moved(adjacency, snapshot, form, attends, tracked):
    """Bytes of the arrays that a form consists of: int64 pointers, int32 ids, float32 weights and scales, int8 signs, uint8 flags."""
    after, nodes = adjacency[snapshot], len(adjacency[snapshot])
    if form is Form.FULL:
        entries = sum(len(sources) for sources in after.values())
        return 8 * (nodes + 1) + 4 * entries + (0 if attends else 4 * entries + 4 * nodes)
    size = 0
    if tracked:
        changed = map_entries(adjacency[snapshot - 1], after)
        size += 4 * len(changed) + 8 * (len(changed) + 1) + (4 + 1) * sum(changed.values())
    if form is Form.DELTA and not attends:
        changed = gcn_entries(adjacency[snapshot - 1], after)
        size += (4 + 1) * len(changed) + 8 * (len(changed) + 1) + 8 * sum(changed.values()) + 4 * nodes
    return size


def test_the_checks_can_fail():
    """The counts by hand see a graph that differs by one edge."""
    graphs = GRAPHS["growth"]
    one, other = rows_of(graphs[0]), rows_of(graphs[0])
    assert gcn_entries(one, other) == {} and map_entries(one, other) == {}
    v = next(v for v, sources in other.items() if len(sources) > 1)
    other[v].discard(next(u for u in other[v] if u != v))
    assert sum(map_entries(one, other).values()) == 1 and len(gcn_entries(one, other)) >= 1
    assert np.isfinite(moved([one, other], 1, Form.DELTA, False, True))
