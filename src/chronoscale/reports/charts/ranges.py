"""Range charts: lowest, mean and highest of a comparison, the published ones above ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS, INK, MUTED

OURS, PUBLISHED = COLOURS[1], MUTED


class Span(NamedTuple):
    """Lowest, mean and highest value in a study's range chart; NaN for those that are not known."""

    low: float
    mean: float
    high: float


def ranges(name: str, title: str, caption: str, unit: str, rows: Sequence[tuple[str, Span, Span]], log: bool = True) -> Drawing:
    """Draw a study's range chart: for each row its label, the range that the paper prints, and ours.

    name: of its file. Bars reach from low to high, a dot is the mean, a tick an end without another.
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for y, (_, published, ours) in enumerate(rows):
            _span(axes, y - 0.16, published, PUBLISHED)
            _span(axes, y + 0.16, ours, OURS)
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.axvline(1, color=INK, linewidth=0.8)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(unit)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        handles = [Line2D([], [], color=colour, marker="o", linewidth=4, alpha=0.9) for colour in (PUBLISHED, OURS)]
        figure.legend(handles, ["published", "ours"], loc="outside upper left", ncols=2)

    return draw(name, title, caption, (10, 0.9 + 0.38 * max(len(rows), 1)), paint)


def _span(axes: Axes, y: float, span: Span, colour: str) -> None:
    """Draw one span between the ends of a range."""
    ends = [value for value in span if math.isfinite(value)]
    if not ends:
        return
    axes.plot([min(ends), max(ends)], [y, y], color=colour, linewidth=4, alpha=0.45, solid_capstyle="round")
    if math.isfinite(span.mean):
        axes.plot(span.mean, y, color=colour, marker="o")
    elif len(ends) == 1:
        axes.plot(ends[0], y, color=colour, marker="|", markersize=9, markeredgewidth=2)
