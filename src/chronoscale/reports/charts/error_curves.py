"""Error curves: scores on validation against seconds of training, a strategy a colour, with naive predictions and the target as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chronoscale.reports.charts.advice_chart import ErrorCurve
from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import INK, MUTED, Look, looks
from chronoscale.reports.numbers import seconds


def error_curves(
    name: str,
    panels: Mapping[str, Sequence[ErrorCurve]],
    title: str,
    naive: Mapping[str, float],
    target: float,
    caption: str,
    is_error: bool = False,
) -> Drawing:
    """Draw scores on validation against seconds for `chronoscale compare`: the median over seeds as a line, their range as a band.

    name: of its file. panels: curves side by side, by the panel's title. title: of the score, for the axis. naive: scores of predictions
    without a model, dotted. target: dashed. is_error: lower is better; the axis is logarithmic.
    """
    labels = list(dict.fromkeys(curve.label for curves in panels.values() for curve in curves))
    styles = looks(labels)
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)

    def paint(figure: Figure) -> None:
        grid = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
        for axes, (panel, curves) in zip(grid, panels.items(), strict=False):
            for curve in curves:
                _paint_curve(axes, curve, styles[curve.label])
            _paint_lines(axes, naive, target)
            axes.set_title(panel)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: seconds(value))
            axes.tick_params(labelbottom=True, labelleft=True)
            if is_error:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
                axes.yaxis.set_minor_formatter(lambda value, _: "")
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.supxlabel("training, s", fontsize="medium")
        figure.supylabel(f"validation {title}", fontsize="medium")
        handles = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=min(len(handles), 6) or 1)

    return draw(name, f"Validation {title} against seconds", caption, (10, 1.4 + 3.2 * rows), paint)


def _paint_curve(axes: Axes, curve: ErrorCurve, look: Look) -> None:
    length = max(map(len, curve.scores), default=0)
    if not length:
        return
    table = np.full((len(curve.scores), length), np.nan)
    for row, scores in zip(table, curve.scores, strict=True):
        row[: len(scores)] = scores
    at = curve.epoch_s * np.arange(1, length + 1)
    axes.plot(at, np.nanmedian(table, 0), look.marker, linestyle="-", markersize=3, color=look.colour, label=curve.label)
    axes.fill_between(at, np.nanmin(table, 0), np.nanmax(table, 0), color=look.colour, alpha=0.15, linewidth=0)


def _paint_lines(axes: Axes, naive: Mapping[str, float], target: float) -> None:
    """Draw what needs no model, and the target."""
    for rival, value in naive.items():
        axes.axhline(value, color=MUTED, linestyle=":", linewidth=1)
        _write(axes, f"{rival}, no model", 0.99, value, MUTED)
    axes.axhline(target, color=INK, linestyle="--", linewidth=1)
    _write(axes, "target", 0.01, target, INK)


def _write(axes: Axes, text: str, across: float, value: float, colour: str) -> None:
    """Write above a line at `value`. across: share of the width at which the text begins, or ends if in the right half."""
    side: Literal["left", "right"] = "right" if across > 0.5 else "left"
    axes.annotate(text, (across, value), xycoords=("axes fraction", "data"), ha=side, va="bottom", fontsize=8, color=colour)
