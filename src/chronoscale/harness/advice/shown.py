"""Shown: what a run of `advise` has found, for the terminal, for a report and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from chronoscale.harness.advice.candidates import Candidate, short, value_of
from chronoscale.harness.advice.headline import headline
from chronoscale.harness.advice.outcome import cautions, choices
from chronoscale.harness.advice.ranking import Choice
from chronoscale.harness.advice.reasons import percent
from chronoscale.harness.cell import record
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.advice import Advice
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.pareto import Mark, pareto
from chronoscale.reports.numbers import number, seconds, size

NAN = float("nan")
FRONT = "•"


def records(experiment: Experiment, run: Run) -> dict[str, Any]:
    """As JSON has it: headline, objective, what to mind, and a record a point: those that rank, then the others."""
    found = choices(experiment, run)
    said = {"headline": headline(found, experiment.advise.objective), "objective": experiment.advise.objective, "notes": cautions(found)}
    return {**said, "points": [record(_record(one)) for one in found]}


def _record(one: Choice) -> dict[str, Any]:
    """Null for what is not known."""
    point, low, high = one.verdict.point, *one.band
    known = {
        "epoch_s": one.verdict.epoch_s,
        "epoch_low_s": low,
        "epoch_high_s": high,
        "hours": one.hours,
        "gpu_hours": one.gpu_hours,
        "cost": one.cost,
    }
    known |= {key: getattr(point, key, None) for key in ("peak_bytes", "prepare_s", "idle_ranks", "partition", "costs")}
    known |= {"iterations": one.verdict.iterations, "behind": one.behind if one.rank else None}
    return {
        "rank": one.rank,
        **asdict(one.candidate),
        **(known if point is not None else dict.fromkeys(known)),
        "first_ahead_in": one.won,
        "told_apart": one.apart,
        "front": one.front,
        "reason": one.reason,
        "not_ranked": one.why,
        "critical_path": [asdict(blame) for blame in one.verdict.blames],
    }


def advised(run: Run, experiment: Experiment, name: str, called: str) -> Advice:
    """For a report; `called`: the run's name in it. Raises UserError for a damaged file."""
    found = choices(experiment, run)
    title = f"Advice by {experiment.advise.objective}: {experiment.model.name} on {experiment.dataset.label} ({called})"
    table = pd.DataFrame([_row(one, found) for one in found if one.rank is not None])
    return Advice(name, title, headline(found, experiment.advise.objective), table, left(found), front(found, f"{name}-pareto"))


def named(candidate: Candidate) -> dict[str, Any]:
    """What tells one candidate from another, a column each."""
    settings = {short(key, candidate.settings): value_of(value) for key, value in candidate.settings.items()}
    return {"strategy": candidate.strategy, "gpus": candidate.gpus, "cluster": candidate.cluster, **settings}


def _row(one: Choice, found: Sequence[Choice]) -> dict[str, Any]:
    point, (low, high) = one.verdict.point, one.band
    return {
        "rank": one.rank,
        **named(one.candidate),
        "epoch_s": one.verdict.epoch_s,
        "epoch_low_s": low,
        "epoch_high_s": high,
        "hours": one.hours,
        "gpu_hours": one.gpu_hours,
        "cost": NAN if one.cost is None else one.cost,
        "peak_bytes": point.peak_bytes if point else 0,
        "iterations": one.verdict.iterations,
        "idle_ranks": point.idle_ranks if point else 0,
        "behind": one.behind,
        "first_ahead_in": NAN if one.won is None else one.won,
        "front": FRONT * one.front,
        "reason": one.reason,
    }


def terminal(found: Sequence[Choice], top: int) -> pd.DataFrame:
    """The first `top` that rank; a column of what all have in common is left out."""
    ranked = [one for one in found if one.rank is not None]
    several = len({one.candidate.cluster for one in found}) > 1
    drawn = any(one.won is not None for one in ranked)
    rows = []
    for one in ranked[:top]:
        point = one.verdict.point
        row = {"rank": one.rank, **{key: value for key, value in named(one.candidate).items() if several or key != "cluster"}}
        row |= {"epoch": seconds(one.verdict.epoch_s), "GPU-hours": number(one.gpu_hours, 3)}
        row |= {} if one.cost is None else {"cost": number(one.cost, 3)}
        row |= {"GPU memory": size(point.peak_bytes) if point else "", "behind": _behind(one)}
        row |= {"first ahead in": "" if one.won is None else f"{percent(one.won)} of draws"} if drawn else {}
        rows.append({**row, "front": FRONT * one.front, "why": one.reason})
    return pd.DataFrame(rows)


def _behind(one: Choice) -> str:
    """As a percentage, as a multiple where that is longer."""
    if one.rank == 1:
        return ""
    return f"+{100 * one.behind:.3g} %" if one.behind < 1 else f"× {number(1 + one.behind, 3)}"


def left(found: Sequence[Choice]) -> list[str]:
    """What does not rank, a line for those of one cluster and setting that do not for the same reason on the same numbers of GPUs."""
    same: dict[tuple[tuple[str, str, str], str], list[Choice]] = {}
    for one in found:
        if one.why:
            same.setdefault((one.candidate.group, one.why), []).append(one)
    alike: dict[tuple[object, ...], list[Choice]] = {}
    for ((cluster, _, settings), why), ones in same.items():
        alike.setdefault((cluster, settings, why, *(one.candidate.gpus for one in ones)), []).extend(ones)
    said = []
    for ones in alike.values():
        names = dict.fromkeys(one.candidate.strategy for one in ones)
        counts = dict.fromkeys(f"{one.candidate.gpus:,}" for one in ones)
        said.append(f"{ones[0].candidate.told(', '.join(names), ', '.join(counts))}: {ones[0].why}")
    return said


def front(found: Sequence[Choice], name: str) -> Drawing | None:
    """Time against GPU-hours; None where nothing ranks."""
    ranked = [one for one in found if one.rank is not None]
    marks = [Mark(one.candidate.strategy, str(one.candidate), one.verdict.epoch_s, one.gpu_hours, one.front, *one.band) for one in ranked]
    return pareto(name, marks) if ranked else None
