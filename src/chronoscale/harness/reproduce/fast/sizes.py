"""Sizes: what the features of the data sets take (Table 3)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.fast.stand_ins import stand_in
from chronoscale.harness.study.findings import Findings, Told, beside
from chronoscale.reports.published import published

FLOAT, GIB = 4, 2.0**30
UNITS_OF = {"node": "nodes", "edge": "edges"}
WHY = {  # what gives a printed size where the table's own counts do not
    ("lastfm", "node"): "1,980 nodes of width 100 take 0.0007, ten times less than printed",
    ("lastfm", "edge"): "1,293,103 edges of width 100 take 0.48; the table prints 128",
    ("lastfm", "total"): "the sum of its printed parts",
    ("wikitalk", "node"): "1,140,149 nodes, which the table rounds to 1.1M, give 0.73",
    ("wikitalk", "total"): "as its nodes",
    ("gdelt", "node"): "0.0257 of 16,681 nodes, cut off",
}


def size(rows: float, width: float) -> float:
    """GiB of float32 features."""
    return rows * width * FLOAT / GIB


def run(told: Told, quick: bool) -> Findings:
    """Four data sets: features of nodes and edges; and the counts of the stand-ins."""
    rows, counts = [], []
    for line in published("fast").tables[3].rows:
        name = str(line["dataset"])
        told(name)
        found = {what: size(float(line[of]), float(line[f"{what}_width"])) for what, of in UNITS_OF.items()}
        found["total"] = sum(found.values())
        for what, ours in found.items():
            rows.append(beside(f"{name}, {what}, GiB", float(line[f"{what}_gb"]), ours, WHY.get((name, what), "")))
        made = stand_in(name)
        counts.append({"dataset": name, "stand-in": f"{name}_like", "nodes": made.nodes, "events": made.events})
    return Findings(
        pd.DataFrame(rows),
        (),
        {"stand-ins": pd.DataFrame(counts)},
        (
            *(("Quick: the same, it takes no time.",) if quick else ()),
            "Printed GB are binary: float32 features of the table's counts, mostly cut off and not rounded. GDELT's edges are 182 wide "
            "here; MemShare's Table 2 has 186, which would be 132.5.",
            "Stand-ins have the data's counts, which the table rounds (LastFM: 1,980 nodes, 1,293,103 events); GDELT's a hundredth of "
            "its events.",
        ),
    )
