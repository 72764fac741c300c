"""Matrices: what each two of some things have in common, as squares."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.strategies.costs import Floats


def matrix(name: str, title: str, caption: str, values: Floats) -> Drawing:
    """values float64 [T, T], each in its square; negative ones are left blank."""
    shown = np.where(values < 0, np.nan, values)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        image = axes.imshow(shown, cmap="YlGnBu", interpolation="nearest")
        for (i, j), value in np.ndenumerate(shown):
            if np.isfinite(value):
                dark = value > np.nanmean(shown) + np.nanstd(shown)
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color="white" if dark else "black")
        axes.set_xticks(range(len(values)))
        axes.set_yticks(range(len(values)))
        axes.set_xlabel("thread")
        axes.set_ylabel("thread")
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, shrink=0.8)

    return draw(name, title, caption, (5.5, 4.6), paint)
