"""Shares: AP and epoch time by the share of nodes that all parts have (Figure 12), simulated on eight GPUs and executed on two ranks."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare import executed, points
from chronoscale.harness.reproduce.memshare.executed import Case, Together
from chronoscale.harness.reproduce.memshare.points import Point, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, SIMULATED
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import NOT_PRINTED, UNKNOWN, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

SHARES, QUICK_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3), (0.0, 0.1, 0.3)
WAYS = {"recent": "memshare-recent", "decay": "memshare"}
GPUS = 8
WHY = f"in the stand-in a part of nearly all events is at the hottest tenth, and fetching is most of a step; else {UNKNOWN}"


def run(told: Told, quick: bool) -> Findings:
    """Speed-ups over nothing shared, simulated; AP and bytes, executed."""
    ranges = {str(one.strategy): one for one in published("memshare").figures[12].ranges}
    shares, names = QUICK_SHARES if quick else SHARES, NAMES[1:3]
    rows, lined, panels = [], [], []
    for dataset in names[: 1 if quick else None]:
        told(f"{dataset}, simulated")
        series = {}
        for how, name in WAYS.items():
            each = {share: simulate(Point(dataset, name, GPUS, quick=quick, sharing=SharingHyper(shared=share))) for share in shares}
            series[how] = (list(shares), [one.epoch_s for one in each.values()])
            for share, one in each.items():
                lined.append(
                    {"how": "simulated", "dataset": dataset, "sampling": how, "k": share, "epoch_s": one.epoch_s, "fetched": one.fetched}
                )
                if share:
                    known = ranges.get(f"k {share:g}, {dataset}, {how}")
                    rows.append(row(f"simulated, {dataset}, {how}, k {share:g}, speed-up over 0", known, [each[0.0].epoch_s / one.epoch_s],
                                    WHY if known else NOT_PRINTED))  # fmt: skip
        panels.append(Panel(dataset, "share of nodes shared", "seconds an epoch", series))
    named, absent = executed.datasets(told, quick)
    for dataset in named:
        told(f"{dataset}, executed")
        cases = {(how, share): Case(name, SharingHyper(shared=share)) for how, name in WAYS.items() for share in shares}
        found = executed.executed(Together(dataset, tuple(cases.values()), quick=quick))
        for (how, share), case in cases.items():
            done = found[case]
            lined.append({"how": "executed", "dataset": dataset, "sampling": how, "k": share, "epoch_s": done.epoch_s, "AP": done.test,
                          "fetched": done.counts["fetched_bytes"]})  # fmt: skip
            rows.append(row(f"executed, {dataset}, {how}, k {share:g}, test AP", None, [done.test], "stands in the plot alone"))
            if share:
                less = done.counts["fetched_bytes"] / found[cases[how, 0.0]].counts["fetched_bytes"]
                rows.append(row(f"executed, {dataset}, {how}, k {share:g}, bytes fetched over 0's", None, [less], NOT_PRINTED))
    drawn = lines("memshare-figure-12", "Epoch time by the share of shared nodes", "TGN on eight GPUs, simulated.", panels)
    divisors = {name: (QUICK if quick else SIMULATED)[name] for name in names[: 1 if quick else None]}
    said = (*points.notes(quick), *streams(divisors), *executed.notes(named, quick, absent))
    return Findings(pd.DataFrame(rows), (drawn,), {"shares": pd.DataFrame(lined)}, said)
