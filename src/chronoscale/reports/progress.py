"""Progress: loss and validation error of training runs, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.reports.drawing import Drawing
from chronoscale.reports.lines import Panel, lines
from chronoscale.reports.stages import Staged


def drawing(runs: Sequence[Staged], name: str) -> Drawing:
    """A series a run; the second panel where anything validated."""
    panels = []
    for title, column in (("training loss", "loss"), ("validation MAE", "mae")):
        series = {
            f"{run.epochs[-1].strategy}: {run.name}": ([e.number for e in run.epochs], [getattr(e, column) for e in run.epochs])
            for run in runs
        }
        if any(value == value for _, values in series.values() for value in values):
            panels.append(Panel(title, "epoch", title, series))
    return lines(
        name, "Training, executed", "Mean loss of every epoch, and the error of the validation that ends it, in units of the data.", panels
    )
