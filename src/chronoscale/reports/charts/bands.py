"""Band charts: what holds of claims under joint assumptions, and where the published number lies."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS, INK

OURS, PUBLISHED = COLOURS[1], COLOURS[2]
WIDE = 54  # characters of a label's line


class Band(NamedTuple):
    """Row of a band chart: a claim, the share of draws in which it holds, the ratio as usually assumed, its 5th, 50th and 95th percentile,
    and what is published of it; NaN for nothing."""

    label: str
    share: float
    usual: float
    low: float
    middle: float
    high: float
    published: float


def bands(name: str, title: str, caption: str, unit: str, rows: Sequence[Band]) -> Drawing:
    """Draw a study's band chart: for each claim a bar from low to high, marks on it, and the share of draws at the right.

    name: of its file.
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for y, row in enumerate(rows):
            _row(axes, y, row)
        axes.set_yticks(range(len(rows)), [textwrap.fill(row.label, WIDE) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(8) if _narrow(rows) else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_xlabel(unit)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        handles = [
            Line2D([], [], color=OURS, linewidth=6, alpha=0.45),
            Line2D([], [], color=OURS, marker="|", markersize=11, markeredgewidth=2, linestyle=""),
            Line2D([], [], color=OURS, marker="o", markerfacecolor="none", linestyle=""),
            *([_diamond()] if any(math.isfinite(row.published) for row in rows) else []),
        ]
        labels = ["9 of 10 draws", "middle", "as usually assumed", "published"]
        figure.legend(handles, labels[: len(handles)], loc="outside upper left", ncols=4)

    return draw(name, title, caption, (10, 1.0 + 0.5 * max(len(rows), 1)), paint)


def _narrow(rows: Sequence[Band]) -> bool:
    """Return whether all numbers lie within a factor of three of one another and of 1, where 1, 2 and 5 are too few ticks."""
    ends = [1.0, *(value for row in rows for value in row[2:] if math.isfinite(value))]
    return max(ends) < 3 * min(ends)


def _diamond() -> Line2D:
    return Line2D([], [], color=PUBLISHED, marker="D", linestyle="")


def _row(axes: Axes, y: int, row: Band) -> None:
    axes.plot([row.low, row.high], [y, y], color=OURS, linewidth=6, alpha=0.45, solid_capstyle="butt")
    axes.plot(row.middle, y, color=OURS, marker="|", markersize=11, markeredgewidth=2)
    axes.plot(row.usual, y, color=OURS, marker="o", markerfacecolor="none")
    if math.isfinite(row.published):
        axes.plot(row.published, y, color=PUBLISHED, marker="D")
    axes.annotate(f"{row.share:.0%}", (1, y), (6, 0), ("axes fraction", "data"), "offset points", va="center")
