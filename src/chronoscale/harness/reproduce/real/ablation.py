"""Ablation: what each part of REAL adds, over PSG (Figures 13 and 22)."""

from __future__ import annotations

import warnings

import pandas as pd

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.real.speedups import COPIES, EXACT, cells, drawing, freed, ratios
from chronoscale.harness.reproduce.study import NOT_PRINTED, Findings, Told, row
from chronoscale.reports.published import Range, published
from chronoscale.strategies.real.ilp import RealL

STEPS = ("real-type1", "real-reuse", "real-g", "real-g+", "real-l")


SOLVED_ON = "arxiv"  # the smallest of the grid: few groups, a program of seconds


def solved(frame: pd.DataFrame, cluster: str, quick: bool, told: Told) -> tuple[dict[str, object], pd.DataFrame]:
    """A row and its points: the ILP's solver run whatever the certified bound proves, beside real-g+ on the same points."""
    found = []
    for point in grid.points(("real-l",), quick, datasets=(SOLVED_ON,), cluster=cluster, variants=("as-published",)):
        told(f"solver, {point.model}, {point.layers} layers")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChronoscaleWarning)  # the note says it, too
            schedule, trace = grid.replayed(point, RealL(always=True))
        at = frame[frame["dataset"].eq(point.dataset) & frame["model"].eq(point.model) & frame["layers"].eq(point.layers)]
        epochs = at[at["strategy"].isin(["psg", "real-g+"])].set_index("strategy")["epoch_s"]
        found.append({"model": point.model, "layers": point.layers, "over psg": epochs["psg"] / (trace.span_ns / 1e9)}
                     | {"over real-g+": epochs["real-g+"] / (trace.span_ns / 1e9), "note": schedule.note})  # fmt: skip
    table = pd.DataFrame(found)
    better = int((table["over real-g+"] > 1).sum())
    why = f"a shorter epoch than real-g+'s in {better} of {len(table)} plans; for example {table['note'].iloc[0]}"
    return row(f"real-l, as-published maps, solver run on {SOLVED_ON}", None, table["over psg"].tolist(), why), table


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
                plans = table[table["strategy"].eq(strategy) & table["variant"].eq(variant)]
                line["why"] = notes.settled(str(line["why"]), plans)
                rows.append(line)
    line, plans = solved(frame, cluster, quick, told)
    table = pd.DataFrame([*rows, line])
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
    return Findings(
        table, drawn, {"points": pd.concat([frame, free], ignore_index=True), "solved": plans}, (*notes.of(frame, wanted, quick), COPIES)
    )
