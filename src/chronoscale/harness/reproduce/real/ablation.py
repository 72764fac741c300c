"""Ablation: what each part of REAL adds, over PSG (Figures 13 and 22)."""

from __future__ import annotations

from functools import partial

import pandas as pd

from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.real.speedups import COPIES, EXACT, cells, drawing, freed, ratios
from chronoscale.harness.reproduce.study import NOT_PRINTED, Findings, Study, Told, row
from chronoscale.reports.published import Range, published

STEPS = ("real-type1", "real-reuse", "real-g", "real-g+", "real-l")


def run(number: int, cluster: str, told: Told, quick: bool) -> Findings:
    """Speed-ups over PSG, cumulative, over the grid; and the same were host to device copies free."""
    printed = published("real").figures[number]
    wanted = ("psg", *STEPS)
    frame = grid.frame(grid.both(wanted, EXACT, quick, cluster=cluster), told)
    free = grid.frame(grid.points(wanted, quick, cluster=cluster, variants=("as-published",), copies=False), told)
    known = {one.strategy: one for one in printed.ranges}
    rows = []
    for table, variant in ((frame, "as-published"), (frame, "exact"), (free, "as-published")):
        why = freed(free if table is frame else free[:0])
        for strategy in STEPS if variant != "exact" else (EXACT,):
            found = ratios(table, strategy, "psg", variant, None).tolist()
            kind = f"{variant} maps" + ", host copies free" * (table is free)
            theirs: Range | None = known.get(strategy)
            if found or theirs:
                line = row(f"{strategy}, {kind}", theirs, found, NOT_PRINTED)
                if theirs:
                    line["why"] = why(theirs, variant, float(str(line["ratio"]))) if found else notes.ABSENT
                rows.append(line)
    table = pd.DataFrame(rows)
    said = f"Simulated on {cluster}, 8 GPUs, durations specified; one- and two-layer models."
    drawn = (
        drawing(
            table,
            f"real-figure-{number}-ranges",
            printed.title,
            f"Speed-ups over psg, published above ours. {said}",
            "times as fast as psg",
        ),
        cells(frame, f"real-figure-{number}-cells", printed.title, "times as fast as psg", "psg", f"As-published difference maps. {said}"),
    )
    return Findings(table, drawn, {"points": pd.concat([frame, free], ignore_index=True)}, (*notes.of(frame, wanted, quick), COPIES))


STUDIES = tuple(
    Study("figure", number, "simulated", lasts_s, partial(run, number, cluster))
    for number, cluster, lasts_s in ((13, "h200", 90), (22, "h20", 90))
)
