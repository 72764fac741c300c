"""Figures: which drawings a section has."""

from __future__ import annotations

from chronoscale.reports import progress
from chronoscale.reports.charts import bars, curves, stages, tornado
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.section import Section


def figures(section: Section) -> list[Drawing]:
    """What the section's results can fill, in reading order; timelines and fidelity are apart."""
    found = []
    if section.sound:
        found += [curves.epoch_time(section), curves.scaling(section)] if curves.scales(section) else [bars.epoch_bars(section)]
    if any(run.effects for run in section.sound):
        found.append(tornado.tornado(section))
    if any(run.op_seconds.sum() > 0 for run in section.runs):
        found.append(bars.time_by_op(section))
    if any(run.losses for run in section.runs):
        found.append(curves.losses(section))
    controlled = [run for run in section.staged if run.epochs and run.activities]
    plain = [run for run in section.staged if run.epochs and not run.activities]
    found += [stages.drawing(run, f"{section.file}stages-{i + 1}") for i, run in enumerate(controlled)]
    return found + ([progress.drawing(plain, f"{section.file}training")] if plain else [])


def fidelity(section: Section) -> list[Drawing]:
    """The fidelity figure, if there is anything in it."""
    return [bars.fidelity(section)] if any(run.prediction is not None and len(run.prediction.frame) for run in section.runs) else []


def timelines(section: Section) -> list[Drawing]:
    """One a result that carries a timeline."""
    return bars.timelines(section)
