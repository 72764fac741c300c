"""FLOPs: how much GraphConv work an epoch has (Figures 11 and 20)."""

from __future__ import annotations

from functools import partial

from chronoscale.harness.reproduce import grid, notes
from chronoscale.harness.reproduce.speedups import EXACT, OURS, RIVALS, compare, drawing
from chronoscale.harness.reproduce.study import Findings, Study, Told
from chronoscale.reports.published import published

COUNTED = "Counted: flops of AGGREGATE and INCREMENT rows of an epoch, forward, self-loops included; backward passes are not."

WHY = {
    "distdgl": "the paper counts GraphConv on imported halo vertices, too; our DistDGL convolves a part's own rows alone",
    "esdg": "real-g: Algorithm 1 as printed pairs few groups that share; real-l: nearly all pairs share three of four snapshots here",
    "blad": "real-g: Algorithm 1 as printed pairs few groups that share; real-l: nearly all pairs share three of four snapshots here",
}


def run(number: int, cluster: str, told: Told, quick: bool) -> Findings:
    """GraphConv work of the rivals over that of REAL, counted in the schedules of the grid."""
    printed = published("real").figures[number]
    wanted = ("psg", *RIVALS, *OURS)
    frame = grid.frame(grid.both(wanted, EXACT, quick, cluster=cluster), told)
    rows = compare(frame, printed.ranges, WHY, "flops")
    drawn = drawing(
        rows,
        f"real-figure-{number}",
        printed.title,
        f"Rival's GraphConv FLOPs over REAL's, published above ours. {COUNTED}",
        "times as many",
    )
    kept = frame.drop(columns=[*grid.KINDS, "epoch_s", "imbalance", "utilisation", "peak_gb"])
    return Findings(rows, (drawn,), {"points": kept}, notes.of(frame, wanted, quick, (COUNTED, *notes.SIMULATED[1:])))


STUDIES = tuple(
    Study("figure", number, "counted", lasts_s, partial(run, number, cluster))
    for number, cluster, lasts_s in ((11, "h200", 90), (20, "h20", 90))
)
