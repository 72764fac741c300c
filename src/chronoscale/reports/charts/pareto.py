"""Pareto chart: time against GPU time for a target, a mark a candidate, and the line of those that no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from chronoscale.reports.charts.advice_chart import Mark
from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import INK, MUTED, looks

LABELLED = 12  # points of a front that carry their names; of more, these are spread over it


def pareto(name: str, marks: Sequence[Mark]) -> Drawing:
    """Draw a report's Pareto chart of `chronoscale advise`: an epoch's time for a target against GPU time for it, a mark a candidate, both
    axes logarithmic.

    name: of its file. Candidates of no time are left out.
    """
    visible = [mark for mark in marks if mark.target_us > 0 and mark.gpu_us > 0]
    looks_by_label = looks(list(dict.fromkeys(mark.label for mark in marks)))
    front = sorted((mark for mark in visible if mark.front), key=lambda mark: mark.gpu_us)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for mark in visible:
            look = looks_by_label[mark.label]
            if mark.high > mark.low:
                axes.plot([mark.gpu_us] * 2, [mark.low, mark.high], color=look.colour, linewidth=1.2, alpha=0.5)
            axes.plot(mark.gpu_us, mark.target_us, look.marker, color=look.colour, alpha=1.0 if mark.front else 0.45)
        axes.plot([m.gpu_us for m in front], [m.target_us for m in front], color=MUTED, linewidth=1, drawstyle="steps-post", zorder=1)
        every = -(-len(front) // LABELLED)
        for mark in front[::every] if front else ():
            place = (mark.gpu_us, mark.target_us)
            axes.annotate(mark.name, place, xytext=(6, 5), textcoords="offset points", fontsize=8, color=INK)
        for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)) if visible else ():
            scale("log")
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        axes.margins(0.12)
        axes.set_xlabel("GPU time for a target, µs, simulated")
        axes.set_ylabel("time for a target, µs")
        handles = [Line2D([], [], color=look.colour, marker=look.marker, linestyle="none") for look in looks_by_label.values()]
        figure.legend(handles, list(looks_by_label), loc="outside upper left", ncols=min(len(looks_by_label), 6))

    caption = "Time for a target trained on against GPU time for it; lower left is better. The line joins the points that no other beats."
    if any(mark.high > mark.low for mark in visible):
        caption += " Bars cover nine tenths of the draws."
    return draw(name, "Time against GPU time", caption, (10, 4.4 + 0.18 * (-(-len(looks_by_label) // 6) - 1)), paint)
