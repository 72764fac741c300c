"""REAL: counts of its data sets and of their difference maps, as printed and of what is generated, for Tables 3 to 5 and Figure 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.testbeds.snapshots import input_width
from chronoscale.harness.study.testbeds.stand_ins import statistics
from chronoscale.strategies.schedule import Op


def structure_bytes(replayed: Replayed) -> float:
    """Return bytes of graphs and maps, not features, copied to devices after each group's first snapshot, for REAL's Table 5."""
    features = statistics(replayed.point.dataset).num_nodes * input_width(replayed.point.dataset, "real") * 4
    rows = replayed.schedule.tasks(Op.H2D)
    moved = replayed.schedule.bytes[rows[replayed.schedule.step[rows] > 0]]
    return float(np.where(moved > features, moved - features, moved).sum())


def increments_a_map(replayed: Replayed) -> float:
    """Return how many INCREMENT tasks (aggregations by difference map) there are for each copy of a map to a device (REAL's Table 5)."""
    rows = replayed.schedule.tasks(Op.H2D)
    return len(replayed.schedule.tasks(Op.INCREMENT)) / max(int((replayed.schedule.step[rows] > 0).sum()), 1)


def counts_of(dataset: str) -> dict[str, float]:
    """Return the counts that REAL's Table 3 prints of a data set, by name, 0 for what is not printed, for Tables 3 to 5."""
    counts = catalogue.entry(dataset).as_published("real")
    return {name: float(getattr(counts, name) or 0) for name in ("nodes", "edges", "changed_nodes", "changed_edges", "steps")}


def attributes(point: StudyPoint) -> dict[str, float]:
    """Return mean counts a snapshot of a point's generated data, at published size, for REAL's Table 3.

    `nodes`; `active`: those with edges; `edges`; `changed_nodes`, `changed_edges`; `touched`: rows that a change reaches; `effective`:
    edges that an aggregation by difference map sums over; `over_full`: these over `edges`. `snapshots`: how many.
    """
    ours = statistics(point.dataset)
    edges, effective = float(ours.edges.mean()), ours.effective_edges[1:].mean()
    return {
        "nodes": float(ours.num_nodes), "edges": edges, "snapshots": len(ours), "touched": float(ours.touched_rows[1:].mean()),
        "changed_nodes": float(ours.changed_nodes[1:].mean()), "changed_edges": float(ours.changed_edges[1:].mean()),
        "active": float(ours.nodes.mean()), "effective": float(effective), "over_full": float(effective / ours.edges.mean()),
    }  # fmt: skip


def accounted(dataset: str, edge: int, changed_edge: int, degrees: int, directions: int = 1) -> dict[str, float]:
    """Return `full_gb` of full graphs, `map_gb` of difference maps, `degree_gb` of degrees, and the share `saved`, for REAL's Table 5.

    By Table 3's means. edge, changed_edge, degrees: bytes of an edge, of a changed edge, and of a changed node's degrees. directions: 2
    where edges are stored both ways.
    """
    of = counts_of(dataset)
    full, maps = of["edges"] * edge * directions * of["steps"] / 1e9, of["changed_edges"] * changed_edge * of["steps"] / 1e9
    nodes = of["changed_nodes"] * degrees * of["steps"] / 1e9
    return {"full_gb": full, "map_gb": maps, "degree_gb": nodes, "saved": saved(full, maps, nodes)}


def saved(full: float, maps: float, degrees: float) -> float:
    """Return the share of full graphs' bytes that difference maps with degrees save; all three in bytes, for REAL's Table 5."""
    return 1 - (maps + degrees) / full


def overlaps(point: StudyPoint) -> dict[str, Any]:
    """Return how many edges the first n snapshots of a generated graph share, for n = 1, 2, ...: a point of REAL's Figure 3.

    `over mean edges` of a snapshot, and `over union`: edges in any of them; lists. Settings: nodes, edges, length (snapshots), rate x
    factor (share of edges that change), share (of all edges that a snapshot has).
    """
    graph = GrowthGraph.rmat(
        point.setting("nodes"), point.setting("edges"), point.setting("length"), point.setting("rate") * point.setting("factor"),
        trend=np.full(point.setting("length"), point.setting("share")),
    )  # fmt: skip
    common, union, edges, over_mean, over_union = None, None, 0, [], []
    for n, snapshot in enumerate(graph, 1):
        keys = snapshot.keys()
        common = keys if common is None else np.intersect1d(common, keys, assume_unique=True)
        union = keys if union is None else np.union1d(union, keys)
        edges += keys.size
        over_mean.append(common.size / (edges / n))
        over_union.append(common.size / union.size)
    return {"over mean edges": over_mean, "over union": over_union}
