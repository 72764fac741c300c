"""Stacked bars: parts of a whole, horizontal, a panel a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS


def stacks(
    name: str, title: str, caption: str, unit: str, parts: Sequence[str], panels: Mapping[str, Mapping[str, Sequence[float]]]
) -> Drawing:
    """Draw a study's stacked horizontal bars.

    name: of its file. panels: title -> label of a bar -> one length a part, in the order of `parts`.
    """
    columns = min(3, max(len(panels), 1))
    lines = math.ceil(max(len(panels), 1) / columns)
    tallest = max((len(bars) for bars in panels.values()), default=1)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes, (heading, bars) in zip(grid, panels.items(), strict=False):
            for y, lengths in enumerate(bars.values()):
                left = 0.0
                for colour, length in zip(COLOURS[1:], lengths, strict=False):
                    axes.barh(y, length, 0.66, left, color=colour, edgecolor="white", linewidth=0.4)
                    left += length
            axes.set_yticks(range(len(bars)), list(bars))
            axes.invert_yaxis()
            axes.set_title(heading)
            axes.set_xlabel(unit)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        handles = [Patch(facecolor=colour, label=part) for colour, part in zip(COLOURS[1:], parts, strict=False)]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(parts), handlelength=1.1)

    return draw(name, title, caption, (10, 0.7 + lines * (0.75 + 0.26 * tallest)), paint)
