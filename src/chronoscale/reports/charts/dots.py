"""Dot charts: one value a strategy over named cells (dataset and model), a panel a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import INK, looks

LOST = "×"


def dots(
    name: str,
    title: str,
    caption: str,
    unit: str,
    cells: Sequence[str],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
) -> Drawing:
    """Draw a study's dot chart: one dot a strategy and cell (such as data set and model), on a logarithmic axis.

    name: of its file. panels: title -> strategy -> one value a cell. NaN leaves a gap; infinity stands for a lost point, drawn as a cross
    at the bottom.
    """
    names = list(dict.fromkeys(label for series in panels.values() for label in series))
    looks_by_name = looks(names)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(max(len(panels), 1), 1, squeeze=False, sharex=True).ravel()
        for axes, (heading, series) in zip(grid, panels.items(), strict=True):
            for i, (label, values) in enumerate(series.items()):
                x = [cell + (i - (len(series) - 1) / 2) * 0.7 / max(len(series), 1) for cell in range(len(cells))]
                look = looks_by_name[label]
                axes.plot(x, [v if math.isfinite(v) else math.nan for v in values], look.marker, color=look.colour, linestyle="none")
                for place, value in zip(x, values, strict=True):
                    if value == math.inf:
                        axes.text(place, 0.02, LOST, color=look.colour, ha="center", transform=axes.get_xaxis_transform(), weight="bold")
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.axhline(1, color=INK, linewidth=0.8)
            axes.set_title(heading)
            axes.set_ylabel(unit)
            axes.grid(axis="x", visible=False)
        grid[-1].set_xticks(range(len(cells)), cells, rotation=60, ha="right", fontsize=8)
        handles = [
            Line2D([], [], color=looks_by_name[label].colour, marker=looks_by_name[label].marker, linestyle="none") for label in names
        ]
        figure.legend(handles, names, loc="outside upper left", ncols=max(len(names), 1))

    return draw(name, title, caption, (10, 1.6 + 2.1 * max(len(panels), 1)), paint)
