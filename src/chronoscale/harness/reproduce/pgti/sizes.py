"""Sizes: what copying windows out costs, by eq. 1 (Table 1, Figure 3)."""

from __future__ import annotations

import pandas as pd

from chronoscale.batching.signals.windows import Windows
from chronoscale.harness.reproduce.pgti.points import whole
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import published

UNITS = {"KB": 1e3, "MB": 1e6, "MiB": 2.0**20, "GiB": 2.0**30}
VALUE, STAMP = 8, 8  # float64; a time stamp a step in the files of the traffic sets
TRAFFIC = ("metr_la", "pems_bay", "pems_all_la", "pems")
# What the files hold, where it is not what Table 1 prints: steps, sensors.
FILES = {"chickenpox_hungary": (521, 20), "pems_bay": (52_116, 325), "pems": (105_120, 11_126)}
WHY = {
    "chickenpox_hungary": "the file has 521 entries, the table 522",
    "pems_bay": "before is of the file's 52,116 steps, after of the table's 52,105",
    "pems": "before is of the 11,126 sensors that section 3 says, after of the table's 11,160",
}


def sizes(dataset: str, nodes: int, entries: int, horizon: int) -> tuple[float, float]:
    """Bytes before and after preprocessing: the file; every window's inputs and targets (eq. 1), traffic with the time of day."""
    steps, sensors = FILES.get(dataset, (entries, nodes))
    traffic = dataset in TRAFFIC
    before = steps * (sensors * VALUE + STAMP * traffic)
    after = Windows(steps if dataset == "chickenpox_hungary" else entries, horizon, horizon)
    return float(before), float(after.materialised_bytes(nodes, 1 + traffic, VALUE))


def table(told: Told, quick: bool) -> Findings:
    """Six data sets, before and after."""
    rows = []
    for line in published("pgt-i").tables[1].rows:
        name = str(line["dataset"])
        found = sizes(name, int(line["nodes"]), int(line["entries"]), int(line["horizon"]))
        for when, size in zip(("before", "after"), found, strict=True):
            unit = str(line[f"{when}_unit"])
            rows.append(beside(f"{name}, {when}, {unit}", float(line[when]), size / UNITS[unit], WHY.get(name, "")))
    said = (
        *whole(quick),
        "Units and horizons (4, 8, 12) are not printed; these give all twelve numbers. "
        "Traffic: one channel and a time stamp a step before, two channels after.",
    )
    return Findings(pd.DataFrame(rows), (), {}, said)


def growth(told: Told, quick: bool) -> Findings:
    """PeMS-All-LA: the file, with time of day, inputs of all windows, inputs and targets."""
    nodes, entries, horizon = 2_716, 105_120, 12
    before, after = sizes("pems_all_la", nodes, entries, horizon)
    array = float(entries * nodes * 2 * VALUE)
    index = float(Windows(entries, horizon, horizon).index_bytes(nodes, 2, VALUE))
    stages = {
        "file": (before, 2.12, ""),
        "1: time of day": (array, NAN, "a second channel: the size that index-batching stays at"),
        "2: sliding windows": (after / 2, NAN, f"{horizon} steps a window in place of one"),
        "3: inputs and targets": (after, 102.08, "eq. 1"),
    }
    rows = [beside(f"{stage}, GiB", theirs, size / UNITS["GiB"], why) for stage, (size, theirs, why) in stages.items()]
    rows.append(beside("index-batching instead, GiB", NAN, index / UNITS["GiB"], "eq. 2"))
    bars = {stage: [size / UNITS["GiB"]] for stage, (size, _, _) in stages.items()} | {"index-batching": [index / UNITS["GiB"]]}
    printed = published("pgt-i").figures[3]
    drawn = stacks("pgt-i-figure-3", printed.title, "Counted: eq. 1 and 2 on Table 1's counts, float64.", "GiB", ("data",), {"": bars})
    return Findings(pd.DataFrame(rows), (drawn,), {}, whole(quick))
