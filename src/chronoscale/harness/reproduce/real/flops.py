"""FLOPs: how much GraphConv work an epoch has (Figures 11 and 20)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.real.speedups import EXACT, OURS, RIVALS, Why, compare, drawing, ratios
from chronoscale.harness.reproduce.study import AGREES, UNKNOWN, Findings, Told
from chronoscale.reports.published import Range, published

COUNTED = "Counted: flops of AGGREGATE and INCREMENT rows of an epoch, forward, self-loops included; backward passes are not."

HALO = "the paper counts GraphConv on imported halo vertices, too; our DistDGL convolves a part's own rows alone"


def reasons(frame: pd.DataFrame) -> Why:
    """Halo vertices, which are stated of DistDGL; else what REAL's rows are."""

    def why(one: Range, variant: str, ratio: float) -> str:
        if abs(ratio - 1) <= AGREES:
            return f"within {AGREES:.0%}"
        ours = frame[frame["strategy"].eq(one.strategy) & frame["variant"].eq(variant) & frame["status"].ne("refused")]
        said = f"{ours['increments'].mean():.0%} of its GraphConv rows are increments, the others sum in full"
        return f"{said}; {HALO if one.over == 'distdgl' and ratio < 1 else f'why ours differs is {UNKNOWN}'}"

    return why


def identical(frame: pd.DataFrame) -> str:
    """Whether ESDG and BLAD have the FLOPs of each other, as the paper says."""
    ratio = ratios(frame, "esdg", "blad", "exact", None, "flops")
    differing = int((ratio != 1).sum())
    return f"ESDG's and BLAD's FLOPs are identical on {len(ratio) - differing} of {len(ratio)} points (the paper: on all)."


def run(number: int, cluster: str, told: Told, quick: bool) -> Findings:
    """GraphConv work of the rivals over that of REAL, counted in the schedules of the grid."""
    printed = published("real").figures[number]
    wanted = ("psg", *RIVALS, *OURS)
    frame = grid.frame(grid.both(wanted, EXACT, quick, cluster=cluster), told)
    rows = compare(frame, printed.ranges, reasons(frame), "flops")
    drawn = drawing(
        rows,
        f"real-figure-{number}",
        printed.title,
        f"Rival's GraphConv FLOPs over REAL's, published above ours. {COUNTED}",
        "times as many",
    )
    kept = frame.drop(columns=[*grid.KINDS, "epoch_s", "imbalance", "utilisation", "peak_gb"])
    return Findings(rows, (drawn,), {"points": kept}, notes.of(frame, wanted, quick, (COUNTED, identical(frame), *notes.SIMULATED[1:])))
