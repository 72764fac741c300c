"""Stages: what a host holds from loading to training, planned from counts (Figures 2 and 6)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from chronoscale.harness.reproduce.pgti.points import GIB, Point, planned, simulate, whole
from chronoscale.harness.reproduce.pgti.sizes import sizes
from chronoscale.harness.study.findings import NAN, SOLVED, Findings, Told, beside, row
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import published

PARTS = ("file", "readings", "inputs", "targets", "standardised copy")
STAGES = ("load", "windows", "standardise", "train")
HOST_GIB = 512e9 / GIB  # of a node of Polaris
PLANNED = (
    "Planned, not sampled: bytes of the arrays that live at each stage, by Algorithm 1 and §4.1 on Table 1's counts; "
    "what the interpreter and libraries hold is not in them.",
    "Printed GB are read as GiB, as Table 1's are. "
    f"The node's 512 GB are not: they are 512e9 bytes in clusters/polaris.yaml, {HOST_GIB:.1f} GiB.",
)
COUNTERFACTUAL = f"counterfactual, {SOLVED}: windows both listed and stacked, one half standardised into a new array, the readings"
Bytes = dict[str, dict[str, float]]  # stage -> part -> bytes


def held(dataset: str, how: str) -> Bytes:
    """Bytes by stage and part. how: copies (Algorithm 1, whose line 19 standardises inputs into a new array), in place (the same without
    it), index (one array, standardised into a second one), gpu-index (the array, on its way to the device)."""
    work = planned(Point("index", dataset=dataset))
    data, windows = work.signal, work.windows
    file, _ = sizes(dataset, data.sensors, data.steps, windows.horizon)
    array = float(data.steps * data.sensors * data.channels * data.itemsize)
    half = float(windows.materialised_bytes(data.sensors, data.channels, data.itemsize)) / 2
    loaded = {"file": file, "readings": array}
    if how in ("copies", "in place"):
        copied = {"readings": array, "inputs": half, "targets": half}
        done = copied | ({"standardised copy": half} if how == "copies" else {})
        return {"load": loaded, "windows": copied, "standardise": done, "train": {"inputs": half, "targets": half}}
    index = {"inputs": 8.0 * len(windows)}
    if how == "gpu-index":
        return {stage: loaded if stage == "load" else {"readings": array} | index for stage in STAGES}
    return {"load": loaded, "windows": loaded | index, "standardise": loaded | index | {"standardised copy": array},
            "train": {"standardised copy": array} | index}  # fmt: skip


def peak(stages: Mapping[str, Mapping[str, float]]) -> tuple[float, str]:
    """GiB of the fullest stage, and its name."""
    sums = {stage: sum(parts.values()) / GIB for stage, parts in stages.items()}
    fullest = max(sums, key=lambda stage: sums[stage])
    return sums[fullest], fullest


def _bars(stages: Bytes) -> dict[str, list[float]]:
    return {stage: [stages[stage].get(part, 0.0) / GIB for part in PARTS] for stage in STAGES}


def case_study(told: Told, quick: bool) -> Findings:
    """DCRNN's and PGT-DCRNN's preprocessing on PeMS-All-LA and PeMS, and whether a node holds it."""
    printed = {str(line["model"]): float(line["host_gb"]) for line in published("pgt-i").tables[2].rows}
    rows, panels = [], {}
    for dataset in ("pems_all_la", "pems"):
        for how, model in (("copies", "dcrnn"), ("in place", "pgt-dcrnn")):
            stages = held(dataset, how)
            most, stage = peak(stages)
            theirs = printed[model] if dataset == "pems_all_la" else NAN
            copied = 2 * stages["windows"]["inputs"] / GIB
            if theirs == theirs:
                why = f"the printed maximum is {theirs / copied:.2f} times eq. 1's size; which copies these are is not said"
            elif most > HOST_GIB:
                why = f"out of memory, as printed: a node has {HOST_GIB:.1f} GiB"
            else:
                why = "printed: out of memory; one copy, made in place, would just fit"
            rows.append(beside(f"{model}, {dataset}, standardised {how}, GiB at {stage}", theirs, most, why))
            panels[f"{model}, {dataset}"] = _bars(stages)
            if model == "pgt-dcrnn":
                lists = 2.5 * copied + stages["windows"]["readings"] / GIB
                rows.append(beside(f"{model}, {dataset}, listed, stacked, one half standardised anew, GiB", theirs, lists, COUNTERFACTUAL))
    figure = published("pgt-i").figures[2]
    drawn = stacks("pgt-i-figure-2", figure.title, f"GiB on the host by stage. {PLANNED[0]}", "GiB", PARTS, panels)
    refused = simulate(Point("pgt", variant="as-published")).refused
    return Findings(pd.DataFrame(rows), (drawn,), {}, (*whole(quick), *PLANNED, f"The planner on PeMS, as published: {refused}."))


def single_gpu(told: Told, quick: bool) -> Findings:
    """PeMS on one GPU: base, index-batching, GPU-index-batching."""
    figure = published("pgt-i").figures[6]
    bare = float(published("pgt-i").tables[3].rows[1]["mb"]) * 1e6 / GIB  # Chickenpox, whose data are nothing
    rows, panels = [], {}
    for one, how in zip(figure.ranges, ("copies", "index", "gpu-index"), strict=True):
        stages = held("pems", how)
        panels[one.strategy] = _bars(stages)
        if how == "gpu-index":
            most, stage = stages["windows"]["readings"] / GIB, "windows"
        else:
            most, stage = peak(stages)
        theirs = one if one.low is None else one.model_copy(update={"low": HOST_GIB})
        line = row(f"{one.strategy}, GiB at {stage}", theirs, [most], f"above the {HOST_GIB:.1f} GiB of a node: out of memory, as printed")
        if one.mean:
            line["why"] = (
                f"{one.mean - most:.2f} GiB are printed besides; a process without data takes about {bare:.2f} (Table 3, Chickenpox)"
            )
        if how == "gpu-index":
            line["why"] = f"{line['why']}; with the file beside the array it would be {peak(stages)[0]:.1f}: the two are not held at once"
        rows.append(line)
        host = simulate(Point(one.strategy, variant="as-published")).host_bytes / GIB
        why = "as published: array, standardised copy, file" if how == "index" else "as published; without what loading takes"
        rows.append(row(f"{one.strategy}, GiB that the schedule plans", None, [host], why))
    rows.append(
        row("index, exact, GiB that the schedule plans", None, [simulate(Point("index")).host_bytes / GIB], "standardised in place")
    )
    drawn = stacks("pgt-i-figure-6", figure.title, f"GiB on the host by stage. {PLANNED[0]}", "GiB", PARTS, panels)
    return Findings(pd.DataFrame(rows), (drawn,), {}, (*whole(quick), *PLANNED))
