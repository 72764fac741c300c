"""Speed-ups: epochs (Figure 9) and tests (Figure 10) of MemShare beside TGL, TGL-dist, MSPipe and DistTGL, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce.memshare.points import GPUS_A_MACHINE, TGL, Point, label, notes, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, SIMULATED
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import AGREES, UNKNOWN, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import Range, published

RIVALS = (TGL, "tgl-dist", "mspipe", "disttgl")
OURS = "memshare"
MODELS = ("tgn", "jodie", "apan")
GPUS, QUICK_GPUS = (4, 8, 16), (4, 8)
MACHINES = {8: "two_machines", 16: "four_machines"}  # of the printed scaling
FARTHER = {64: 0, 256: 0, 1024: 750}  # GPUs that the paper has not, and events each; 0: as before
FAR, FAR_DIVISOR, FAR_STEPS = "wikitalk", 1, 3  # whose 5.5 million training events are seven steps of 256 GPUs, not two of 1,024
ALONE = (
    f"DistTGL tests on one GPU, whose host is fast in ours, while ours fetches negatives of all nodes over 10 Gb/s; the rest is {UNKNOWN}"
)
HOST = "our hosts keep up with the bus, and messages do not collide"


def points(dataset: str, model: str, gpus: int, quick: bool, tests: bool) -> dict[str, Point]:
    """By strategy; TGL on one machine alone."""
    names = [name for name in (*RIVALS, OURS) if name != TGL or gpus <= GPUS_A_MACHINE]
    return {name: Point(dataset, name, gpus, model, quick, tests=tests) for name in names}


def epochs(told: Told, quick: bool) -> Findings:
    """Seconds of an epoch; speed-ups over all data sets, models and numbers of GPUs, and TGN's scaling."""
    figure = published("memshare").figures[9]
    table = measured(told, quick, False)
    printed = {one.over: one for one in figure.ranges}
    rows = overall(table, printed, f"means over {', '.join(map(label, _gpus(quick)))}, {', '.join(_models(quick))}")
    rows += scaling(table)
    farther, sizes = beyond(told, quick)
    drawn = lines("memshare-figure-9", "Epoch time by GPUs", "TGN, simulated.", panels(table))
    said = ("Rows are speed-ups of memshare over each strategy, lowest, mean and highest over all points; TGL's of one machine alone. "
            "Test APs of the figure are Table 3's.",)  # fmt: skip
    return Findings(
        pd.DataFrame(rows + farther), (drawn,), {"epochs": table, "farther": sizes}, (*said, *notes(quick), *streams(_divisors(quick)))
    )


def inference(told: Told, quick: bool) -> Findings:
    """Seconds of a test, TGN."""
    figure = published("memshare").figures[10]
    table = measured(told, quick, True)
    printed = {one.over: one for one in figure.ranges if not one.gpus}
    rows = overall(table, printed, f"means over {', '.join(map(label, _gpus(quick)))}")
    for one in figure.ranges:
        if one.gpus is not None and one.gpus in _gpus(quick):
            mine = table[table.gpus == one.gpus]
            rows.append(row(f"{label(one.gpus)}, {OURS} over {one.over}", one, list(mine[one.over] / mine[OURS]), ALONE))
    drawn = lines("memshare-figure-10", "Time of a test by GPUs", "TGN, simulated.", panels(table))
    said = ("Batches that validate, alone, as many as the paper's test has events; scores and negatives as in the test, all destinations "
            "may be negatives. DistTGL's whole test is on one GPU.",)  # fmt: skip
    return Findings(pd.DataFrame(rows), (drawn,), {"tests": table}, (*said, *notes(quick), *streams(_divisors(quick))))


def measured(told: Told, quick: bool, tests: bool) -> pd.DataFrame:
    """Simulated seconds, a line each data set, model and number of GPUs, a column each strategy; NaN where it does not run."""
    found = []
    for dataset in _names(quick):
        for model in ("tgn",) if tests else _models(quick):
            for gpus in _gpus(quick):
                told(f"{dataset}, {model}, {label(gpus)}")
                asked = points(dataset, model, gpus, quick, tests)
                seconds = {name: simulate(asked[name]).epoch_s if name in asked else float("nan") for name in (*RIVALS, OURS)}
                found.append({"dataset": dataset, "model": model, "gpus": gpus, **seconds})
    return pd.DataFrame(found)


def overall(table: pd.DataFrame, printed: dict[str, Range], over: str) -> list[dict[str, object]]:
    """Speed-ups over all points."""
    found = []
    for rival in RIVALS:
        ours = list(table[rival] / table[OURS])
        ratio = float(np.nanmean(ours)) / float(printed[rival].mean or 1)
        found.append(row(f"{OURS} over {rival}", printed[rival], ours, f"{over}; {within(ratio, cause(rival))}"))
    return found


def cause(rival: str) -> str:
    """Why a speed-up differs, as far as it is known."""
    known = {
        TGL: f"{HOST}, of which TGL's rows, one a sampled slot, gain most; the rest is {UNKNOWN}",
        "tgl-dist": f"what crosses 10 Gb/s follows from the cut, and stand-ins have no communities; the rest is {UNKNOWN}",
        "mspipe": "theirs fetches and aggregates through the host, by another cut than ours; "
        f"our mspipe is our tgl-dist with stale memory, so no slower; the rest is {UNKNOWN}",
        "disttgl": f"ours copies memory at the bus's rate; the rest is {UNKNOWN}",
    }
    return known[rival]


def within(ratio: float, why: str) -> str:
    """Nothing to explain where it agrees."""
    return f"within {AGREES:.0%}" if abs(ratio - 1) <= AGREES else why


def scaling(table: pd.DataFrame) -> list[dict[str, object]]:
    """TGN's epochs on two machines, which Table 4 prints, and speed-ups over one."""
    seconds = {str(line["dataset"]): float(str(line["memshare_shared"])) for line in published("memshare").tables[4].rows}
    found = []
    for line in published("memshare").figures[9].rows:
        name = str(line["dataset"])
        mine = table[(table.dataset == name) & (table.model == "tgn")].set_index("gpus")[OURS]
        two = float(str(line[MACHINES[8]]))
        implied = {4: seconds[name] * two, **{gpus: seconds[name] * two / float(str(line[key])) for gpus, key in MACHINES.items()}}
        for gpus in [gpus for gpus in mine.index if gpus in implied]:
            why = "Table 4" if gpus == 8 else "Table 4's, by the printed scaling"
            told = {"published_mean": implied[gpus], "ratio": float(mine[gpus] / implied[gpus])}
            found.append(row(f"{name}, tgn, {label(gpus)}, epoch, s", None, [mine[gpus]], why) | told)
        for gpus, key in MACHINES.items():
            if gpus in mine.index:
                printed, ours = float(str(line[key])), float(mine[4] / mine[gpus])
                off = f"ours takes {mine[4] / implied[4]:.2f} of the implied time on one machine, {mine[gpus] / implied[gpus]:.2f} here"
                known = Range(strategy=OURS, over=label(4), mean=printed)
                found.append(row(f"{name}, tgn, {label(gpus)} over {label(4)}", known, [ours], within(ours / printed, off)))
    return found


def beyond(told: Told, quick: bool) -> tuple[list[dict[str, object]], pd.DataFrame]:
    """Rows and table of more GPUs than the paper has."""
    found, rows = [], []
    for gpus, size in ({32: 0} if quick else FARTHER).items():
        told(f"{FAR}, {label(gpus)}")
        one = Point(FAR, OURS, gpus, quick=quick, divisor=0 if quick else FAR_DIVISOR, size=size, least=FAR_STEPS)
        asked = {name: replace(one, strategy=name) for name in (*RIVALS[1:], OURS)}
        done = {name: simulate(point).epoch_s for name, point in asked.items()}
        found.append({"dataset": FAR, "model": "tgn", "gpus": gpus, **done})
        why = f"beyond the paper's four machines; {one.batch:,} events a GPU"
        rows += [row(f"{FAR}, tgn, {label(gpus)}, {OURS} over {name}", None, [done[name] / done[OURS]], why) for name in RIVALS[1:]]
    return rows, pd.DataFrame(found)


def panels(table: pd.DataFrame) -> list[Panel]:
    """A panel a data set, TGN."""
    found = []
    for dataset, part in table[table.model == "tgn"].groupby("dataset", sort=False):
        series = {name: (list(part.gpus), list(part[name])) for name in (*RIVALS, OURS) if part[name].notna().any()}
        found.append(Panel(str(dataset), "GPUs", "seconds", series, scale=("log", "log")))
    return found


def _names(quick: bool) -> Sequence[str]:
    return NAMES[:2] if quick else NAMES


def _models(quick: bool) -> Sequence[str]:
    return MODELS[:1] if quick else MODELS


def _gpus(quick: bool) -> Sequence[int]:
    return QUICK_GPUS if quick else GPUS


def _divisors(quick: bool) -> dict[str, int]:
    return {name: (QUICK if quick else SIMULATED)[name] for name in _names(quick)}
