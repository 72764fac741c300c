"""Line charts: named series over a common axis, in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import looks


class Panel(NamedTuple):
    """Panel of a report's or study's line chart.

    x, y: labels of the axes. series: label -> (x, y); fits: label of a series -> (x, y) of the curve fitted to it, drawn thin; scale:
    matplotlib's, of x and y. diagonal: whether to draw y = x.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    fits: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {}
    scale: tuple[Literal["linear", "log"], Literal["linear", "log"]] = ("linear", "linear")
    style: Literal["lines", "dots"] = "lines"
    diagonal: bool = False


def lines(name: str, title: str, caption: str, panels: Sequence[Panel]) -> Drawing:
    """Draw a report's or study's line chart, panels side by side; a label keeps its colour across them.

    name: of its file. Curves that coincide are drawn as bands, each thinner than the last.
    """
    labels = list(dict.fromkeys(label for panel in panels for label in panel.series))
    looks_by_label = looks(labels)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(1, len(panels), squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=True):
            dense = any(len(x) > 24 for x, _ in panel.series.values())
            for i, (label, (x, y)) in enumerate(panel.series.items()):
                look = looks_by_label[label]
                marker = look.marker if panel.style == "dots" or not dense else ""
                linestyle = "none" if panel.style == "dots" or label in panel.fits else "-"
                width = 1.2 + 1.2 * (len(panel.series) - 1 - i) if dense else 1.8
                axes.plot(x, y, color=look.colour, marker=marker, linestyle=linestyle, linewidth=width, alpha=0.9)
            for label, (x, y) in panel.fits.items():
                axes.plot(x, y, color=looks_by_label[label].colour, linewidth=1.0)
            if panel.diagonal:
                ends = [min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])]
                axes.plot(ends, ends, color="#667080", linewidth=0.9, linestyle=":", zorder=1)
            axes.set_xscale(panel.scale[0])
            axes.set_yscale(panel.scale[1])
            for axis, scale in ((axes.xaxis, panel.scale[0]), (axes.yaxis, panel.scale[1])):
                if scale == "log":
                    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
            axes.set_title(panel.title)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
        handles = [(looks_by_label[label], label) for label in labels]
        dotted = panels[0].style == "dots"
        figure.legend(
            [grid[0].plot([], [], color=look.colour, marker=look.marker, linestyle="none" if dotted else "-")[0] for look, _ in handles],
            [label for _, label in handles],
            loc="outside upper left",
            ncols=min(max(len(labels), 1), 6),
        )

    return draw(name, title, caption, (10, 3.9), paint)
