"""Progress: loss and validation score of training runs, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.datasets.scores import scores_present
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.charts.staged import NAN, Staged


def drawing(runs: Sequence[Staged], name: str) -> Drawing:
    """A series a run; the second panel where anything validated: the first of the scores that there are."""
    values = {"training loss": [[epoch.loss for epoch in run.epochs] for run in runs]}
    caption = "Mean loss of every epoch"
    for score in scores_present(epoch.scores for run in runs for epoch in run.epochs)[:1]:
        values[f"validation {score.title}"] = [[epoch.scores.get(score.key, NAN) for epoch in run.epochs] for run in runs]
        caption += f", and {score.title} of the validation that ends it: {score.meaning}; {score.better} is better"
    axes = [(f"{run.epochs[-1].strategy}: {run.name}", [epoch.number for epoch in run.epochs]) for run in runs]
    panels = [
        Panel(title, "epoch", title, {label: (x, y) for (label, x), y in zip(axes, found, strict=True)})
        for title, found in values.items()
        if any(value == value for one in found for value in one)
    ]
    return lines(name, "Training, executed", f"{caption}.", panels)
