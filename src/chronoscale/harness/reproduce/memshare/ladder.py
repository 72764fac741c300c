"""Ladder: what each of MemShare's components is worth (Figure 11), simulated on eight GPUs and executed on two ranks."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from chronoscale.harness.reproduce.memshare import executed, points
from chronoscale.harness.reproduce.memshare.executed import NETWORK, Case, Done, Together
from chronoscale.harness.reproduce.memshare.points import Point, simulate
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, SIMULATED
from chronoscale.harness.reproduce.memshare.stand_ins import notes as streams
from chronoscale.harness.study.findings import NOT_PRINTED, UNKNOWN, Findings, Told, row
from chronoscale.reports.published import published

RUNGS = ("tgl-dist", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives", "memshare")
ADDED = ("shared", "his-mem", "b-decay", "local-neg", "pipeline")  # what a rung adds to the one before
TESTED = ADDED[:3]  # what an inference has of them
GPUS = 8
WHY = {
    "shared": "what sharing a tenth saves follows from how hot it is, and in ours every change of it reaches all ranks",
    "his-mem": "ours says the share of changes that is assumed; the rest follows from how much of a step that is",
    "b-decay": "ours fetches most of a step's time, so that fetching less gains more",
    "local-neg": "theirs may draw other shares from the rank's own part (§4.3 has p_r related to theta); in ours it is theta",
    "pipeline": "in ours communication is longer than computing even so, and little hides behind the latter",
}


def run(told: Told, quick: bool) -> Findings:
    """Speed-ups by component, of an epoch and of a test, and gains of AP."""
    ranges = {one.strategy: one for one in published("memshare").figures[11].ranges}
    gains = {str(line["component"]): float(line["ap_gain"]) for line in published("memshare").figures[11].rows}
    names = NAMES[1:2] if quick else NAMES
    rows, lined = [], []
    for tests, of, added in ((False, "epoch", ADDED), (True, "test", TESTED)):
        times = {}
        for dataset in names:
            told(f"{dataset}, {of}, simulated")
            rungs = RUNGS[: 1 + len(added)]
            times[dataset] = [simulate(Point(dataset, name, GPUS, quick=quick, tests=tests)).epoch_s for name in rungs]
            lined.append({"how": f"simulated, {of}", "dataset": dataset, **dict(zip(rungs, times[dataset], strict=True))})
        for at, what in enumerate(added):
            printed = ranges[f"{what}, inference" if tests else what]
            ours = [each[at] / each[at + 1] for each in times.values()]
            rows.append(row(f"simulated, {of}, with {what}, speed-up", printed, ours, f"{WHY[what]}; else {UNKNOWN}"))
    named, absent = executed.datasets(told, quick)
    for dataset in named:
        for network in (0.0, NETWORK):
            how = f"executed, {dataset}" + (f", network of {network / 1e6:g} MB/s" if network else "")
            told(how)
            done = executed.executed(Together(dataset, tuple(map(Case, RUNGS)), quick=quick, network=network))
            found = {case.strategy: one for case, one in done.items()}
            rows += steps(how, found)
            lined.append({"how": how, "dataset": dataset, **{name: one.epoch_s for name, one in found.items()}})
            if not network:
                rows += [accuracy(how, at, found, gains) for at in range(len(ADDED))]
                rows.append(fetched(how, found))
    return Findings(pd.DataFrame(rows), (), {"ladder": pd.DataFrame(lined)}, said(quick, names, named, absent))


def steps(how: str, found: Mapping[str, Done]) -> list[dict[str, object]]:
    """Speed-ups of executed epochs, and of all components together."""
    seconds = [found[name].epoch_s for name in RUNGS]
    why = "a CPU computes for tens of times as long as an A40; two ranks"
    rows = [row(f"{how}, with {what}, speed-up", None, [seconds[at] / seconds[at + 1]], why) for at, what in enumerate(ADDED)]
    return [*rows, row(f"{how}, all components, speed-up", None, [seconds[0] / seconds[-1]], why)]


def accuracy(how: str, at: int, found: Mapping[str, Done], gains: Mapping[str, float]) -> dict[str, object]:
    """Gain of test AP by one component."""
    what = ADDED[at]
    ours = found[RUNGS[at + 1]].test - found[RUNGS[at]].test
    printed = gains.get(what)
    why = "a few epochs of another stream on two ranks, one seed" if printed else NOT_PRINTED
    return row(f"{how}, with {what}, gain of test AP", None, [ours], why) | {"published_mean": float("nan") if printed is None else printed}


def fetched(how: str, found: Mapping[str, Done]) -> dict[str, object]:
    """Bytes that ranks fetch, of MemShare over TGL-dist."""
    ours = found["memshare"].counts["fetched_bytes"] / found["tgl-dist"].counts["fetched_bytes"]
    return row(f"{how}, bytes fetched, memshare over tgl-dist", None, [ours], NOT_PRINTED)


def said(quick: bool, names: tuple[str, ...], named: tuple[str, ...], absent: tuple[str, ...]) -> tuple[str, ...]:
    """How it was made."""
    divisors = {name: (QUICK if quick else SIMULATED)[name] for name in names}
    return (
        f"Rungs are {', '.join(RUNGS)}; a speed-up is over the one before. Simulated on {points.label(GPUS)}, TGN, {', '.join(names)}.",
        *points.notes(quick),
        *streams(divisors),
        *executed.notes(named, quick, absent),
        f"Executed also with ranks held to {NETWORK / 1e6:g} MB/s and {executed.LATENCY * 1e6:g} µs an operation between them.",
    )
