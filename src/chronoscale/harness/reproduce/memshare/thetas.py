"""Thetas: what is fetched, and how long that takes, by the share of remote neighbours that are sampled (Figure 13), simulated."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare.points import STAGES, Outcome, Point, label, notes, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, SIMULATED
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.reproduce.study import NOT_PRINTED, UNKNOWN, Findings, Study, Told, row
from chronoscale.reports.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

THETAS, QUICK_THETAS = (0.01, 0.1, 0.2, 0.4, 0.8), (0.01, 0.1, 0.8)
RECENT, DECAY, LOCAL = "memshare-recent", "memshare", "memshare-local"
GPUS = 8


def asked(dataset: str, quick: bool) -> dict[str, Point]:
    """By what the figure's axis says, without a pipeline. Remote negatives are theta's (§4.3), recent's as 0.1's."""

    def point(name: str, theta: float) -> Point:
        return Point(dataset, name, GPUS, quick=quick, sharing=SharingHyper(theta=theta), pipelined=False)

    found = {"local": point(LOCAL, 0.0)}
    found |= {f"{theta:g}": point(DECAY, theta) for theta in (QUICK_THETAS if quick else THETAS)}
    return found | {"recent": point(RECENT, 0.1)}


def run(told: Told, quick: bool) -> Findings:
    """Seconds a step by stage; shares of remote fetching that are saved."""
    names, lined, saved = NAMES[1:3] if quick else NAMES, list[dict[str, object]](), dict[str, list[float]]()
    panels, volumes = [], dict[str, list[float]]()
    for dataset in names:
        told(dataset)
        done = {how: simulate(point) for how, point in asked(dataset, quick).items()}
        whole = {how: one.stages["remote fetching"] for how, one in done.items()}
        for how, one in done.items():
            lined.append({"dataset": dataset, "sampling": how, "step_s": one.step_s, **one.stages, "fetched_bytes": one.fetched})
            saved.setdefault(how, []).append(1 - whole[how] / whole["recent"])
            volumes.setdefault(how, []).append(1 - one.fetched / done["recent"].fetched)
        panels.append(Panel(dataset, "theta", "seconds a step", staged(done), scale=("log", "linear")))
    printed = {"0.1": 0, "0.01": 1}
    ranges = published("memshare").figures[13].ranges
    rows = []
    for how, shares in saved.items():
        if how == "recent":
            continue
        known = ranges[printed[how]] if how in printed else None
        name = how if how == "local" else f"theta {how}"
        rows.append(row(f"{name}, fetch time saved over recent, share", known, shares, why(known is not None)))
        rows.append(row(f"{name}, bytes fetched saved over recent, share", None, volumes[how], NOT_PRINTED))
    drawn = lines(
        "memshare-figure-13", "Seconds a step by theta", f"TGN on {label(GPUS)}, no pipeline, simulated; recent at theta 1.", panels
    )
    said = (f"TGN on {label(GPUS)}, over {', '.join(names)}; lowest, mean and highest of them. Fetching is of ids and rows; with theta "
            "fall remote negatives, too. AP is not of a simulation: Figure 13's gain of up to 0.039 on LastFM is not reached.",)  # fmt: skip
    divisors = {name: (QUICK if quick else SIMULATED)[name] for name in names}
    return Findings(pd.DataFrame(rows), (drawn,), {"stages": pd.DataFrame(lined)}, (*said, *notes(quick), *streams(divisors)))


def staged(done: dict[str, Outcome]) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each stage over theta, recent at 1; local, 0, is left out of the logarithmic axis."""
    some = {1.0 if how == "recent" else float(how): one for how, one in done.items() if how != "local"}
    return {stage: (list(some), [one.stages[stage] for one in some.values()]) for stage in STAGES}


def why(known: bool) -> str:
    """Why a share differs."""
    if not known:
        return NOT_PRINTED
    return f"how many neighbours are remote follows from the cut, in print of real data; remote roots and negatives stay; else {UNKNOWN}"


STUDIES = (Study("figure", 13, "simulated", 60, run, "times alone, generated stand-ins", paper="memshare"),)
