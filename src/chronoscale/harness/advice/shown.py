"""Results of a run of `advise`, for the terminal, for a report and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from chronoscale.harness.advice.headline import headline
from chronoscale.harness.advice.outcome import cautions
from chronoscale.harness.advice.ranking import Choice
from chronoscale.harness.advice.reasons import percent
from chronoscale.harness.display.cell import record
from chronoscale.harness.keys.advise import Objective
from chronoscale.reports.advice import Advice
from chronoscale.reports.charts.advice_chart import Mark, ParetoChart
from chronoscale.reports.numbers import number, seconds, size

NAN = float("nan")
FRONT = "•"


def json_records(ranked: Sequence[Choice], objective: Objective) -> dict[str, Any]:
    """Return what `chronoscale advise --json` prints: headline, objective, notes, and a record a candidate, those that rank first.

    ranked: as `choices` returns them. objective: that they are ranked by.
    """
    summary = {"headline": headline(ranked, objective), "objective": objective, "notes": cautions(ranked)}
    return {**summary, "points": [record(_record(choice)) for choice in ranked]}


def _record(choice: Choice) -> dict[str, Any]:
    """A candidate's record, null for what is not known."""
    point, low, high = choice.verdict.point, *choice.band
    figures = {
        "epoch_s": choice.verdict.epoch_s,
        "epoch_low_s": low,
        "epoch_high_s": high,
        "hours": choice.hours,
        "gpu_hours": choice.gpu_hours,
        "cost": choice.cost,
    }
    figures |= {key: getattr(point, key, None) for key in ("peak_bytes", "prepare_s", "idle_ranks", "partition", "costs")}
    figures |= {"iterations": choice.verdict.iterations, "targets": getattr(point, "targets", None), "target_us": choice.target_us}
    figures |= {"behind": choice.behind if choice.rank else None}
    return {
        "rank": choice.rank,
        **asdict(choice.candidate),
        **(figures if point is not None else dict.fromkeys(figures)),
        "first_ahead_in": choice.won,
        "told_apart": choice.apart,
        "front": choice.front,
        "reason": choice.reason,
        "not_ranked": choice.why,
        "critical_path": [asdict(blame) for blame in choice.verdict.blames],
    }


def report_advice(ranked: Sequence[Choice], objective: Objective, name: str, subject: str) -> Advice:
    """Return a run of `chronoscale advise` as a section of `chronoscale report`.

    ranked: as `choices` returns them. objective: that they are ranked by. name: of the section's files. subject: what is trained, and in
    which run, for its title.
    """
    title = f"Advice by {objective}: {subject}"
    table = pd.DataFrame([_row(choice, ranked) for choice in ranked if choice.rank is not None])
    return Advice(name, title, headline(ranked, objective), table, not_ranked(ranked), pareto_chart(ranked, f"{name}-pareto"))


def _row(choice: Choice, found: Sequence[Choice]) -> dict[str, Any]:
    point, (low, high) = choice.verdict.point, choice.band
    return {
        "rank": choice.rank,
        **choice.candidate.columns,
        "epoch_s": choice.verdict.epoch_s,
        "epoch_low_s": low,
        "epoch_high_s": high,
        "hours": choice.hours,
        "gpu_hours": choice.gpu_hours,
        "cost": NAN if choice.cost is None else choice.cost,
        "peak_bytes": point.peak_bytes if point else 0,
        "steps": choice.verdict.iterations,
        "targets": point.targets if point else 0,
        "target_us": choice.target_us,
        "idle_ranks": point.idle_ranks if point else 0,
        "behind": choice.behind,
        "first_ahead_in": NAN if choice.won is None else choice.won,
        "front": FRONT * choice.front,
        "reason": choice.reason,
    }


def terminal_table(choices_of_run: Sequence[Choice], top: int) -> pd.DataFrame:
    """Return `chronoscale advise`'s table of the first `top` candidates that rank.

    A column that is the same for all, such as the cluster, is left out.
    """
    ranked = [choice for choice in choices_of_run if choice.rank is not None]
    several = len({choice.candidate.cluster for choice in choices_of_run}) > 1
    drawn = any(choice.won is not None for choice in ranked)
    rows = []
    for choice in ranked[:top]:
        point = choice.verdict.point
        row = {"rank": choice.rank, **{key: value for key, value in choice.candidate.columns.items() if several or key != "cluster"}}
        row |= {"epoch": seconds(choice.verdict.epoch_s), "steps": choice.verdict.iterations, "µs a target": number(choice.target_us, 3)}
        row |= {"GPU-hours": number(choice.gpu_hours, 3)}
        row |= {} if choice.cost is None else {"cost": number(choice.cost, 3)}
        row |= {"GPU memory": size(point.peak_bytes) if point else "", "behind": _behind(choice)}
        row |= {"first ahead in": "" if choice.won is None else f"{percent(choice.won)} of draws"} if drawn else {}
        rows.append({**row, "front": FRONT * choice.front, "why": choice.reason})
    return pd.DataFrame(rows)


def _behind(choice: Choice) -> str:
    """Write how much more a candidate takes than the first: a percentage, or a multiple where that is longer."""
    if choice.rank == 1:
        return ""
    return f"+{100 * choice.behind:.3g} %" if choice.behind < 1 else f"× {number(1 + choice.behind, 3)}"


def not_ranked(choices_of_run: Sequence[Choice]) -> list[str]:
    """Return `chronoscale advise`'s lines on candidates that do not rank: one for all of a cluster and setting with one reason and GPUs."""
    same: dict[tuple[tuple[str, str, str], str], list[Choice]] = {}
    for choice in choices_of_run:
        if choice.why:
            same.setdefault((choice.candidate.group, choice.why), []).append(choice)
    alike: dict[tuple[object, ...], list[Choice]] = {}
    for ((cluster, _, settings), why), alike_choices in same.items():
        alike.setdefault((cluster, settings, why, *(choice.candidate.gpus for choice in alike_choices)), []).extend(alike_choices)
    lines = []
    for alike_choices in alike.values():
        names = dict.fromkeys(choice.candidate.strategy for choice in alike_choices)
        counts = dict.fromkeys(f"{choice.candidate.gpus:,}" for choice in alike_choices)
        lines.append(f"{alike_choices[0].candidate.name_with(', '.join(names), ', '.join(counts))}: {alike_choices[0].why}")
    return lines


def pareto_chart(choices_of_run: Sequence[Choice], name: str) -> ParetoChart | None:
    """Return the chart of candidates' time against GPU time for a target, for the report of `chronoscale advise`; None where nothing ranks.

    name: of the figure's file.
    """
    ranked = [choice for choice in choices_of_run if choice.rank is not None]
    marks = []
    for choice in ranked:
        candidate, each = choice.candidate, choice.target_us / choice.verdict.epoch_s if choice.verdict.epoch_s else 0.0
        band = [each * end for end in choice.band]
        marks.append(Mark(candidate.strategy, str(candidate), choice.target_us, choice.gpu_target_us, choice.front, *band))
    return ParetoChart(name, marks) if ranked else None
