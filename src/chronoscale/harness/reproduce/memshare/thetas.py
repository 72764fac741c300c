"""Thetas: what is fetched, and how long that takes, by the share of remote neighbours that are sampled (Figure 13), simulated."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from chronoscale.harness.reproduce.memshare.points import STAGES, Outcome, Point, label, notes, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, SIMULATED
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import NOT_PRINTED, UNKNOWN, Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

THETAS, QUICK_THETAS = (0.01, 0.1, 0.2, 0.4, 0.8), (0.01, 0.1, 0.8)
RECENT, DECAY, LOCAL = "memshare-recent", "memshare", "memshare-local"
GPUS = 8


def pairs(dataset: str, quick: bool) -> dict[str, tuple[Outcome, Outcome]]:
    """By theta, or `local`: what is simulated without a pipeline, and recent neighbours with as many remote negatives (§4.3)."""

    def found(name: str, theta: float) -> tuple[Outcome, Outcome]:
        one = Point(dataset, name, GPUS, quick=quick, sharing=SharingHyper(theta=theta), pipelined=False)
        return simulate(one), simulate(replace(one, strategy=RECENT))

    return {"local": found(LOCAL, 0.0)} | {f"{theta:g}": found(DECAY, theta) for theta in (QUICK_THETAS if quick else THETAS)}


def run(told: Told, quick: bool) -> Findings:
    """Seconds a step by stage; shares of remote fetching that are saved."""
    names, lined, saved = NAMES[1:3] if quick else NAMES, list[dict[str, object]](), dict[str, list[float]]()
    panels, volumes = [], dict[str, list[float]]()
    for dataset in names:
        told(dataset)
        done = pairs(dataset, quick)
        for how, (one, recent) in done.items():
            for name, each in ((how, one), (f"recent, negatives of {how}", recent)):
                lined.append({"dataset": dataset, "sampling": name, "step_s": each.step_s, **each.stages, "fetched_bytes": each.fetched})
            saved.setdefault(how, []).append(1 - one.stages["remote fetching"] / recent.stages["remote fetching"])
            volumes.setdefault(how, []).append(1 - one.fetched / recent.fetched)
        panels.append(Panel(dataset, "theta", "seconds a step", staged(done), scale=("log", "linear")))
    printed = {"0.1": 0, "0.01": 1}
    ranges = published("memshare").figures[13].ranges
    rows = []
    for how, shares in saved.items():
        known = ranges[printed[how]] if how in printed else None
        name = how if how == "local" else f"theta {how}"
        rows.append(row(f"{name}, fetch time saved over recent, share", known, shares, why(known is not None)))
        rows.append(row(f"{name}, bytes fetched saved over recent, share", None, volumes[how], NOT_PRINTED))
    drawn = lines("memshare-figure-13", "Seconds a step by theta", f"TGN on {label(GPUS)}, no pipeline, simulated.", panels)
    said = (f"TGN on {label(GPUS)}, {', '.join(names)}; lowest, mean and highest of them. Fetching is of ids and rows; each is "
            "beside recent neighbours with as many remote negatives. AP is not of a simulation: the gain of up to 0.039 on LastFM is not "
            "looked at.",)  # fmt: skip
    divisors = {name: (QUICK if quick else SIMULATED)[name] for name in names}
    return Findings(pd.DataFrame(rows), (drawn,), {"stages": pd.DataFrame(lined)}, (*said, *notes(quick), *streams(divisors)))


def staged(done: dict[str, tuple[Outcome, Outcome]]) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each stage over theta; local, 0, is left out of the logarithmic axis."""
    some = {float(how): one for how, (one, _) in done.items() if how != "local"}
    return {stage: (list(some), [one.stages[stage] for one in some.values()]) for stage in STAGES}


def why(known: bool) -> str:
    """Why a share differs."""
    if not known:
        return NOT_PRINTED
    return f"how many neighbours are remote follows from the cut, in print of real data; remote roots and negatives stay; else {UNKNOWN}"
