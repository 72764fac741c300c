"""Heatmaps: how busy each GPU is over time, a panel a strategy and dataset; and matrices of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.strategies.costs import Floats


class Heat(NamedTuple):
    """Panel of a study's heat maps: `share` float64 [ranks, bins], 0 to 1, is how busy each GPU is over the first `seconds` of an epoch."""

    title: str
    share: Floats
    seconds: float


def heatmaps(name: str, title: str, caption: str, panels: Sequence[Heat], columns: int) -> Drawing:
    """Draw a study's heat maps of GPU against time, in so many columns; white is idle, dark is busy throughout a bin.

    name: of its file.
    """
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


def matrix(name: str, title: str, caption: str, values: Floats) -> Drawing:
    """Draw a study's matrix of values between threads.

    name: of its file. values: float64 [threads, threads], each in its square; negative ones are left blank.
    """
    visible = np.where(values < 0, np.nan, values)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        image = axes.imshow(visible, cmap="YlGnBu", interpolation="nearest")
        for (i, j), value in np.ndenumerate(visible):
            if np.isfinite(value):
                dark = value > np.nanmean(visible) + np.nanstd(visible)
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if dark else "black")
        axes.set_xticks(range(len(values)))
        axes.set_yticks(range(len(values)))
        axes.set_xlabel("thread")
        axes.set_ylabel("thread")
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, shrink=0.8)

    return draw(name, title, caption, (5.5, 4.6), paint)
