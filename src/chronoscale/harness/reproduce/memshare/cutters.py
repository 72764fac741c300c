"""Cutters: epoch time (Table 4) and test AP (Table 5) of MemShare by what cuts the stream."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare import executed, points
from chronoscale.harness.reproduce.memshare.executed import Case, Together
from chronoscale.harness.reproduce.memshare.points import Point, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, NAMES, QUICK
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import UNKNOWN, Findings, Told, beside
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

COLUMNS = {  # of the tables: what cuts, and what is shared
    "metis": ("metis", 0.0), "distgl": ("distgl", 0.0), "memshare": ("shared-nodes", 0.0),
    "metis_shared": ("metis", 0.1), "memshare_shared": ("shared-nodes", 0.1),
}  # fmt: skip
OURS, SHARED, GPUS = "memshare", "memshare_shared", 8
NAN = float("nan")


def sharing(column: str) -> SharingHyper:
    """theta 0.1 and alpha 0.3 for all (§5.4)."""
    policy, shared = COLUMNS[column]
    return SharingHyper(policy=policy, shared=shared, theta=0.1, alpha=0.3)


def times(told: Told, quick: bool) -> Findings:
    """Epochs over that of ours with shared nodes: simulated on eight GPUs, executed on two ranks."""
    divisors, lined, rows = QUICK if quick else CUT, [], []
    names = NAMES[1:3] if quick else NAMES
    printed = {str(line["dataset"]): line for line in published("memshare").tables[4].rows}
    for dataset in names:
        told(f"{dataset}, simulated")
        found = {column: simulate(Point(dataset, OURS, GPUS, quick=quick, sharing=sharing(column), divisor=divisors[dataset])).epoch_s
                 for column in COLUMNS}  # fmt: skip
        lined.append({"how": "simulated", "dataset": dataset, **found})
        for column in tuple(COLUMNS)[:-1]:
            theirs = float(str(printed[dataset][column])) / float(str(printed[dataset][SHARED]))
            rows.append(beside(f"simulated, {dataset}, {column} over {SHARED}", theirs, found[column] / found[SHARED], why(column)))
    named, absent = executed.datasets(told, quick)
    for dataset in named:
        found = {column: one.epoch_s for column, one in ran(told, dataset, quick).items()}
        lined.append({"how": "executed", "dataset": dataset, **found})
        for column in tuple(COLUMNS)[:-1]:
            said = "not a data set of the paper's; on two ranks little is uneven"
            rows.append(beside(f"executed, {dataset}, {column} over {SHARED}", NAN, found[column] / found[SHARED], said))
    notes = (*points.notes(quick), *streams({name: divisors[name] for name in names}), *executed.notes(named, quick, absent))
    return Findings(pd.DataFrame(rows), (), {"epochs": pd.DataFrame(lined)}, notes)


def accuracies(told: Told, quick: bool) -> Findings:
    """Test AP by cut; what ours with shared nodes gains."""
    printed = {str(line["dataset"]): line for line in published("memshare").tables[5].rows}
    named, absent = executed.datasets(told, quick)
    rows, lined = [], []
    for dataset in named:
        found = {column: one.test for column, one in ran(told, dataset, quick).items()}
        lined.append({"dataset": dataset, **found})
        for column in COLUMNS:
            known = float(str(printed[dataset][column])) if dataset in printed else NAN
            said = "a generated stream, a few epochs, two ranks" if dataset in printed else "not a data set of the paper's"
            rows.append(beside(f"{dataset}, {column}, test AP", known, found[column], said))
    return Findings(pd.DataFrame(rows), (), {"aps": pd.DataFrame(lined)}, executed.notes(named, quick, absent))


def ran(told: Told, dataset: str, quick: bool) -> dict[str, executed.Done]:
    """By the tables' columns."""
    told(f"{dataset}, executed")
    cases = {column: Case(OURS, sharing(column)) for column in COLUMNS}
    done = executed.executed(Together(dataset, tuple(cases.values()), quick=quick))
    return {column: done[case] for column, case in cases.items()}


def why(column: str) -> str:
    """Why a ratio of epochs differs."""
    if column.endswith("_shared"):
        return f"which events METIS puts where; else {UNKNOWN}"
    return f"most of a stand-in's events are cut where nothing is shared, whatever cuts it, and its loads are more even; else {UNKNOWN}"
