"""Overlap: what all snapshots so far have in common (Figure 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.reproduce.study import Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published

RATES = (0.05, 0.10, 0.15)
LENGTH, NODES, EDGES, SHARE = 41, 2_000, 100_000, 0.2  # snapshots; static graph; share of it that a snapshot holds

# A change rate c read as c E changed edges (half deleted, half inserted), or as c E edges replaced (deleted and inserted alike).
READINGS = {"changed": 1.0, "replaced": 2.0}
KEEPS = {
    "changed": "c counted over deletions and insertions together: a snapshot keeps 1 - c/2 of the last one's edges",
    "replaced": "c counted as edges replaced: a snapshot keeps 1 - c of the last one's edges",
}


def overlaps(rate: float) -> pd.DataFrame:
    """Edges in all of the first n snapshots, over the mean number of edges and over the edges in any of them."""
    graph = GrowthGraph.rmat(NODES, EDGES, LENGTH, rate, trend=np.full(LENGTH, SHARE))
    common, union, edges, found = None, None, 0, []
    for n, snapshot in enumerate(graph, 1):
        keys = snapshot.keys()
        common = keys if common is None else np.intersect1d(common, keys, assume_unique=True)
        union = keys if union is None else np.union1d(union, keys)
        edges += keys.size
        found.append({"snapshots": n, "over mean edges": common.size / (edges / n), "over union": common.size / union.size})
    return pd.DataFrame(found)


def run(told: Told, quick: bool) -> Findings:
    """Counted on a generated graph of constant size; both readings of a change rate, both denominators."""
    printed = published("real").figures[3]
    frames, rows, panels = [], [], []
    rates = RATES[:1] if quick else RATES
    for reading, factor in READINGS.items():
        series: dict[str, tuple[list[float], list[float]]] = {}
        at_30: dict[str, list[float]] = {"over mean edges": [], "over union": []}
        for rate in rates:
            told(f"{rate:.0%} {reading}")
            counted = overlaps(rate * factor)
            frames.append(counted.assign(rate=rate, reading=reading))
            for name, values in at_30.items():
                series[f"{rate:.0%}, {name}"] = (counted["snapshots"].tolist(), counted[name].tolist())
                values.append(float(counted[name].iloc[30]))
        panels.append(Panel(f"c E edges {reading} a step", "snapshots", "share in all of them", series))
        for name, values in at_30.items():
            shares = ", ".join(f"{value:.0%} at {rate:.0%}" for rate, value in zip(rates, values, strict=True))
            rows.append(row(f"after 30 steps, c E {reading}, {name}", printed.ranges[0], values, f"{KEEPS[reading]}; {name}: {shares}"))
    drawn = lines("real-figure-3", printed.title, "Counted on a generated graph of constant size.", panels)
    said: tuple[str, ...] = ("Quick: 5 % alone.",) if quick else ()
    said += (
        f"Growth graph over R-MAT: {NODES:,} nodes, {int(EDGES * SHARE):,} edges a snapshot, drawn from {EDGES:,}; ours are 5, "
        f"10 and 15 %.",
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"overlap": pd.concat(frames, ignore_index=True)}, said)
