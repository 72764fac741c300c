"""Transfers: what share of a forward pass, and of an epoch, moves data, and of which kind (Figures 2, 10, 19)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import notes
from chronoscale.harness.reproduce.real import grid
from chronoscale.harness.reproduce.study import NOT_PRINTED, UNKNOWN, Findings, Told, by_copies, row
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import published
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule
from chronoscale.strategies.trace import Trace

SHOWN = ("esdg", "distdgl", "blad", "psg", "real-g", "real-g+", "real-l")
REAL_WORLD = ("stackoverflow", "stackoverflow_a2q", "wiki_talk")  # §2.3 profiles three real-world datasets; these are Table 3's

SAID = {"esdg": "hidden states", "distdgl": "neighbours", "blad": "CPU-GPU"}  # what §7.2.2 names as a strategy's dominant transfer
BETWEEN = ("neighbours", "hidden states")  # of data between GPUs, of which REAL has none


def verdict(strategy: str, share: Mapping[str, float]) -> str:
    """What §7.2.2 says of a strategy's transfers beside ours, `share` of its transfer time by kind."""
    if strategy.startswith("real-"):
        return "agrees: no data between GPUs but gradients" if not any(share[kind] for kind in BETWEEN) else "differs: data between GPUs"
    if strategy not in SAID:
        return NOT_PRINTED
    largest, said = max(share, key=lambda kind: share[kind]), SAID[strategy]
    if largest == said:
        return f"agrees: most is {said}"
    between = max(BETWEEN, key=lambda kind: share[kind])
    part = f" (between GPUs it is {said})" if between == said and share[said] else ""
    return f"differs: in the paper most is {said}, here {largest}{part}; why is {UNKNOWN}"


def forward_shares(schedule: Schedule, trace: Trace) -> tuple[float, float]:
    """Of the forward pass: the share inside inter-GPU transfers, and that share with waiting for them.

    A rank's forward pass of an iteration lasts from its first start to the start of its first BACKWARD. Transfers count where no
    computing hides them; waiting is what neither computes nor copies from the host.
    """
    site = trace.rank.astype(np.int64) * max(schedule.iterations, 1) + schedule.iteration[trace.task]
    sites = schedule.ranks * max(schedule.iterations, 1)
    begin, end = np.full(sites, np.iinfo(np.int64).max), np.full(sites, np.iinfo(np.int64).max)
    np.minimum.at(begin, site, trace.start_ns)
    back = trace.op == Op.BACKWARD
    np.minimum.at(end, site[back], trace.start_ns[back])
    known = (begin < end) & (end < np.iinfo(np.int64).max)
    together = np.isin(trace.op, [int(op) for op in COLLECTIVES])
    inside = known[site] & (trace.start_ns < end[site])
    moving = _covered(trace, inside & together, site, sites)
    working = _covered(trace, inside & ~together, site, sites)
    either = _covered(trace, inside, site, sites)
    total = float((end - begin)[known].sum())
    bare = float((either - working)[known].sum())  # transfers that nothing hides
    return (min(bare, float(moving[known].sum())) / total, 1 - float(working[known].sum()) / total) if total else (0.0, 0.0)


def _covered(
    trace: Trace, where: np.ndarray[tuple[int], np.dtype[np.bool_]], site: np.ndarray[tuple[int], np.dtype[np.int64]], sites: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Length of the union of intervals, by site."""
    place, start, end = site[where], trace.start_ns[where], trace.end_ns[where]
    order = np.lexsort((start, place))
    place, start, end = place[order], start[order], end[order]
    covered = np.zeros(sites, np.int64)
    if len(place):
        offset = place * (int(end.max()) - int(start.min()) + 1)
        before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end + offset)[:-1]])
        np.add.at(covered, place, np.maximum(end + offset - np.maximum(start + offset, before), 0))
    return covered


def forward(told: Told, quick: bool) -> Findings:
    """Figure 2: WD-GCN on the three real-world datasets' stand-ins, 8 GPUs."""
    printed = published("real").figures[2]
    datasets = REAL_WORLD[2:] if quick else REAL_WORLD
    found: dict[str, list[float]] = {}
    freed: dict[str, list[float]] = {}
    detail: list[dict[str, object]] = []
    for one in printed.ranges:
        shares, without = [], []
        for dataset in datasets:
            told(f"{one.strategy}, {dataset}")
            try:
                bare, waited = forward_shares(*grid.replayed(grid.Point(dataset, "wd-gcn", 1, one.strategy)))
                free = forward_shares(*grid.replayed(grid.Point(dataset, "wd-gcn", 1, one.strategy, copies=False)))
            except UserError as error:
                detail.append({"strategy": one.strategy, "dataset": dataset, "refused": str(error)})
                continue
            detail.append({"strategy": one.strategy, "dataset": dataset, "transfers": bare, "transfers_and_waiting": waited})
            waits = one.strategy == "esdg"
            shares.append(waited if waits else bare)
            without.append(free[1] if waits else free[0])
        found[one.strategy], freed[one.strategy] = shares, without
    rows = []
    for how, shown in (("", found), (", host copies free", freed)):
        for one in printed.ranges:
            what = f"{one.strategy}, share of forward" + ", waiting included" * (one.strategy == "esdg") + how
            line = row(what, one, shown[one.strategy], notes.ABSENT)
            best = row("", one, freed[one.strategy] if shown is found else [], "")
            if shown[one.strategy]:
                line["why"] = by_copies(float(str(line["ratio"])), float(str(best["ratio"])))
            rows.append(line)
    said = (*notes.subset(quick, datasets, ["wd-gcn"]), *notes.SIMULATED[:2])
    return Findings(pd.DataFrame(rows), (), {"shares": pd.DataFrame(detail)} if detail else {}, said)


def breakdown(number: int, cluster: str, told: Told, quick: bool) -> Findings:
    """Figures 10 and 19: seconds of transfer an epoch, mean of the GPUs, by kind; one-layer models."""
    printed = published("real").figures[number]
    frame = grid.frame(grid.points(SHOWN, quick, (1,), cluster, variants=("as-published",)), told)
    ran = frame[frame["status"] == "ran"]
    kinds = list(grid.KINDS)
    table = ran[["dataset", "model", "strategy", "gpus", *kinds]].assign(**{kind: ran[kind] / ran["gpus"] for kind in kinds})
    panels: dict[str, dict[str, list[float]]] = {}
    for (dataset, model), part in table.groupby(["dataset", "model"], sort=False):
        panels[f"{dataset}, {model}"] = {str(line["strategy"]): [float(line[kind]) for kind in kinds] for line in part.to_dict("records")}
    rows = []
    for name, part in table.groupby("strategy", sort=False):
        share = part[kinds].div(part[kinds].sum(axis=1), axis=0).mean()
        largest = str(share.idxmax())
        said = verdict(str(name), {kind: float(share[kind]) for kind in kinds})
        rows.append(
            {
                "what": name,
                "published": "plot only",
                "mean transfer s": float(part[kinds].sum(axis=1).mean()),
                **{k: float(share[k]) for k in kinds},
            }
            | {"largest": largest, "why": notes.settled(said, ran[ran["strategy"] == name])}
        )
    caption = (
        f"Seconds an epoch that a GPU spends in transfers, mean of 8; overlap not deducted. Simulated on {cluster}, durations specified."
    )
    drawn = stacks(f"real-figure-{number}", printed.title, caption, "s an epoch and GPU", kinds, panels)
    kept = ("Kinds are shares of a strategy's transfer time, mean over datasets and models.", *notes.of(frame, SHOWN, quick))
    return Findings(pd.DataFrame(rows), (drawn,), {"seconds": table}, kept)
