"""Error curves: scores on validation against seconds of training, a strategy a colour, with naive predictions and the target as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import INK, MUTED, looks


class ErrorCurve(NamedTuple):
    """Curve of one strategy: seconds of training after each epoch, and every seed's score there.

    scores: one sequence a seed; a shorter one ended early.
    """

    label: str
    epoch_s: float
    scores: Sequence[Sequence[float]]


def error_curves(name: str, curves: Sequence[ErrorCurve], title: str, naive: Mapping[str, float], target: float, caption: str) -> Drawing:
    """Draw scores on validation against seconds for `chronoscale compare`: the median over seeds as a line, their range as a band.

    name: of its file. title: of the score, for the axis. naive: scores of predictions without a model, dotted. target: dashed.
    """
    styles = looks([curve.label for curve in curves])

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for curve in curves:
            length = max(map(len, curve.scores), default=0)
            if not length:
                continue
            table = np.full((len(curve.scores), length), np.nan)
            for row, scores in zip(table, curve.scores, strict=True):
                row[: len(scores)] = scores
            at, look = curve.epoch_s * np.arange(1, length + 1), styles[curve.label]
            axes.plot(at, np.nanmedian(table, 0), look.marker, linestyle="-", markersize=3, color=look.colour, label=curve.label)
            axes.fill_between(at, np.nanmin(table, 0), np.nanmax(table, 0), color=look.colour, alpha=0.15, linewidth=0)
        for rival, value in naive.items():
            axes.axhline(value, color=MUTED, linestyle=":", linewidth=1)
            axes.annotate(
                f"{rival}, no model", (0.99, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8, color=MUTED
            )
        axes.axhline(target, color=INK, linestyle="--", linewidth=1)
        axes.annotate("target", (0.01, target), xycoords=("axes fraction", "data"), va="bottom", fontsize=8, color=INK)
        axes.set_xscale("log")
        axes.set_xlabel("training, s")
        axes.set_ylabel(f"validation {title}")
        figure.legend(loc="outside upper left", ncols=min(len(curves), 6))

    return draw(name, f"Validation {title} against seconds", caption, (10, 4.6), paint)
