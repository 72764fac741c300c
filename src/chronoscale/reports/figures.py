"""Figures: which drawings a report has."""

from __future__ import annotations

from chronoscale.reports import bars, curves, progress, stages
from chronoscale.reports.drawing import Drawing
from chronoscale.reports.report import Report


def figures(report: Report) -> list[Drawing]:
    """What the report's data can fill, in reading order; timelines and fidelity are apart."""
    found = []
    if report.runs:
        found += [curves.epoch_time(report), curves.scaling(report)] if curves.scales(report) else [bars.epoch_bars(report)]
        if any(run.op_seconds.sum() > 0 for run in report.runs):
            found.append(bars.time_by_op(report))
    if any(report.losses.values()):
        found.append(curves.losses(report))
    controlled = [run for run in report.staged if run.epochs and run.activities]
    plain = [run for run in report.staged if run.epochs and not run.activities]
    found += [stages.drawing(run, f"stages-{i + 1}") for i, run in enumerate(controlled)]
    return found + ([progress.drawing(plain, "training")] if plain else [])


def fidelity(report: Report) -> list[Drawing]:
    """The fidelity figure, if there is anything in it."""
    return [bars.fidelity(report)] if any(len(frame) for frame in report.fidelity.values()) else []


def timelines(report: Report) -> list[Drawing]:
    """One a run that carries a timeline."""
    return bars.timelines(report)
