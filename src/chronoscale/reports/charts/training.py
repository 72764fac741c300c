"""Training charts: stages of a run over time, as REAL's Figure 6 has them but measured; loss and score of runs epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from chronoscale.datasets.scores import scores_present
from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.charts.style import COLOURS, MUTED
from chronoscale.reports.training_run import NAN, WAITING, TrainingRun


def stages(run: TrainingRun, name: str) -> Drawing:
    """Draw a training run for a report: control plane and ranks over time, and the seconds of every epoch below. name: of its file."""
    zero = min([e.start_ns - e.switch_ns for e in run.epochs] + [a.start_ns for a in run.activities])
    kinds = list(dict.fromkeys(activity.what for activity in run.activities))
    colours = dict(zip(run.stages, (COLOURS[0], COLOURS[6], COLOURS[3]), strict=False))
    other_colours = (COLOURS[5], COLOURS[4], COLOURS[7], COLOURS[2], COLOURS[1])
    works = {kind: other_colours[i % len(other_colours)] for i, kind in enumerate(kinds)}

    def seconds(ns: int) -> float:
        return (ns - zero) / 1e9

    def paint(figure: Figure) -> None:
        planes, each = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for a in run.activities:
            span = [(seconds(a.start_ns), max(a.end_ns - a.start_ns, 0) / 1e9)]
            waits = a.what == WAITING
            planes.broken_barh(span, (0.6, 0.8), facecolors="none" if waits else works[a.what], edgecolor=works[a.what], hatch="//" * waits)
        for stage, epochs in run.stages.items():
            bars = [(seconds(e.start_ns), (e.end_ns - e.start_ns) / 1e9) for e in epochs]
            planes.broken_barh(bars, (-0.4, 0.8), facecolors=colours[stage], edgecolor="white", linewidth=0.4)
            at = seconds(epochs[0].start_ns - epochs[0].switch_ns)
            for axes in (planes, each):
                axes.axvline(at, color=MUTED, linewidth=0.8, linestyle=":")
            middle = [seconds((e.start_ns + e.end_ns) // 2) for e in epochs]
            each.plot(middle, [length for _, length in bars], marker=".", linestyle="none", color=colours[stage])
        planes.set_yticks([0, 1], ["data plane", "control plane"])
        planes.set_ylim(-0.6, 1.6)
        planes.grid(visible=False)
        each.set_ylim(0, 1.1 * max(e.end_ns - e.start_ns for e in run.epochs) / 1e9)
        each.set_ylabel("s an epoch")
        each.set_xlabel("s from the start")
        names = {stage: f"{stage}: {epochs[-1].strategy}" for stage, epochs in run.stages.items()}
        handles = [Patch(facecolor=colours[stage], label=label) for stage, label in names.items()]
        for kind in kinds:
            waits = kind == WAITING
            handles.append(Patch(facecolor="none" if waits else works[kind], edgecolor=works[kind], hatch="//" * waits, label=kind))
        figure.legend(handles=handles, loc="outside upper left", ncols=4)

    title = f"Stages: {run.name}, {run.ranks} rank{'s' * (run.ranks != 1)}, executed"
    caption = (
        "Every epoch of the data plane, coloured by stage, and what the control plane did at the time (hatched where it waited for epochs)."
    )
    return draw(name, title, " ".join([caption, *run.notes]), (10, 3.6), paint)


def progress(runs: Sequence[TrainingRun], name: str) -> Drawing:
    """Draw the loss of training runs by epoch for a report, a series a run; where anything validated, a score in a second panel.

    name: of its file. The score is the first that there is.
    """
    curves_by_title = {"training loss": [[epoch.loss for epoch in run.epochs] for run in runs]}
    caption = "Mean loss of every epoch"
    for score in scores_present(epoch.scores for run in runs for epoch in run.epochs)[:1]:
        curves_by_title[f"validation {score.title}"] = [[epoch.scores.get(score.key, NAN) for epoch in run.epochs] for run in runs]
        caption += f", and {score.title} of the validation that ends it: {score.meaning}; {score.better} is better"
    axes = [(f"{run.epochs[-1].strategy}: {run.name}", [epoch.number for epoch in run.epochs]) for run in runs]
    panels = [
        Panel(title, "epoch", title, {label: (x, y) for (label, x), y in zip(axes, curves, strict=True)})
        for title, curves in curves_by_title.items()
        if any(value == value for curve in curves for value in curve)
    ]
    return lines(name, "Training, executed", f"{caption}.", panels)
