"""Heatmaps: how busy each GPU is over time, a panel a strategy and dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.strategies.costs import Floats


class Heat(NamedTuple):
    """`share` float64 [ranks, bins] in 0..1 over the first `seconds` of an epoch."""

    title: str
    share: Floats
    seconds: float


def heatmaps(name: str, title: str, caption: str, panels: Sequence[Heat], columns: int) -> Drawing:
    """GPU against time; white is idle, dark is busy throughout a bin."""
    columns = min(columns, len(panels))
    lines = math.ceil(len(panels) / columns)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        image = None
        for axes, panel in zip(grid, panels, strict=False):
            scale, unit = (1.0, "s") if panel.seconds >= 1 else (1e3, "ms")
            extent = (0.0, panel.seconds * scale, len(panel.share) - 0.5, -0.5)
            image = axes.imshow(panel.share, aspect="auto", cmap="YlGnBu", vmin=0, vmax=1, extent=extent, interpolation="nearest")
            axes.set_title(panel.title, fontsize=8)
            axes.set_yticks([0, len(panel.share) - 1])
            axes.tick_params(labelsize=7)
            axes.set_xlabel(unit, fontsize=7, labelpad=1)
            axes.grid(visible=False)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        if image is not None:
            figure.colorbar(image, ax=list(grid), shrink=0.6, label="busy share", aspect=30)

    return draw(name, title, caption, (10, 0.6 + 1.4 * lines), paint)
