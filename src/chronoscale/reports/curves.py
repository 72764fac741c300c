"""Curves: epoch time, parallel efficiency and imbalance against the number of ranks; losses against steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import matplotlib.ticker as ticks
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from chronoscale.reports.drawing import Drawing, draw
from chronoscale.reports.findings import evidence
from chronoscale.reports.formats import INFINITE
from chronoscale.reports.report import Measured, Report, Setting
from chronoscale.reports.style import COLOURS, MUTED, Look, dash, looks
from chronoscale.reports.tables import efficiency


def lines(report: Report) -> list[tuple[Setting, str, list[Measured]]]:
    """Every curve: setting, strategy, its runs with ranks ascending."""
    found = [(setting, name, report.curve(name, setting)) for setting in report.settings for name in report.strategies]
    return [line for line in found if line[2]]


def scales(report: Report) -> bool:
    """Whether any strategy ran on more than one rank count, so that curves mean something."""
    return any(len(runs) > 1 for _, _, runs in lines(report))


def _label(report: Report, setting: Setting, strategy: str) -> str:
    others = [other for other in report.settings if other != setting]
    machine = [setting.machine] if setting.machine and any(other.kind == setting.kind for other in others) else []
    return ", ".join([strategy, *([setting.kind] if any(other.kind != setting.kind for other in others) else []), *machine])


def _columns(labels: list[str]) -> int:
    """Legend entries that fit beside one another."""
    return max(1, min(len(labels), 130 // (max(map(len, labels)) + 9)))


def _height(report: Report) -> float:
    """Inches of a figure with curves: more under a legend of several rows."""
    labels = [_label(report, setting, strategy) for setting, strategy, _ in lines(report)]
    return 3.8 + 0.18 * (math.ceil((len(labels) + 1) / _columns(labels)) - 1)


def _legend(figure: Figure, report: Report, drawn: list[tuple[Setting, str, list[Measured]]], ideal: bool) -> None:
    known = looks(report.strategies)
    handles = [_handle(known[strategy], setting) for setting, strategy, _ in drawn]
    labels = [_label(report, setting, strategy) for setting, strategy, _ in drawn]
    if ideal:
        handles.append(Line2D([], [], color=MUTED, linewidth=0.9, linestyle=":"))
        labels.append("ideal")
    figure.legend(handles, labels, loc="outside upper left", ncols=_columns(labels), handlelength=3.4)


def _handle(look: Look, setting: Setting) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=dash(setting.kind))


def _rank_axis(axes: Axes, report: Report) -> None:
    counts = sorted({run.ranks for run in report.runs})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticks.FixedLocator(counts))
    axes.xaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(ticks.NullLocator())
    axes.set_xlabel("ranks (one device each)")
    axes.grid(axis="x", visible=False)


def epoch_time(report: Report) -> Drawing:
    """Epoch seconds against ranks, both logarithmic, with the ideal of the baseline; whiskers where there are repeats."""
    drawn, known = lines(report), looks(report.strategies)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for setting, strategy, runs in drawn:
            look, x, y = known[strategy], [run.ranks for run in runs], [run.summary.epoch_s for run in runs]
            axes.plot(x, y, color=look.colour, marker=look.marker, linestyle=dash(setting.kind))
            spread = [run.summary.spread_s for run in runs]
            if any(spread):
                axes.errorbar(x, y, yerr=spread, fmt="none", ecolor=look.colour, elinewidth=1.2, capsize=3)
            if strategy == report.baseline and len(runs) > 1:
                axes.plot(x, [y[0] * x[0] / ranks for ranks in x], color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticks.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(ticks.NullLocator())
        axes.set_ylabel("epoch, s")
        _rank_axis(axes, report)
        _legend(figure, report, drawn, ideal=True)

    caption = f"Time of one epoch; lower is better. Dotted: {report.baseline} with perfect scaling. {evidence(list(report.runs))}"
    return draw("epoch_time", "Epoch time", caption, (10, _height(report)), paint)


def scaling(report: Report) -> Drawing:
    """Parallel efficiency and imbalance ratio against ranks: the two panels of REAL, Figure 15."""
    drawn = lines(report)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _panel(left, report, lambda runs: [100 * value for value in efficiency(runs).values()])
        left.set_ylabel("parallel efficiency, %")
        left.set_ylim(0, max(104, left.get_ylim()[1]))
        left.axhline(100, color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
        _panel(right, report, lambda runs: [run.summary.imbalance for run in runs])
        right.set_ylabel("imbalance ratio, most / least loaded")
        high = max(1.1, right.get_ylim()[1])  # a hundredth of imbalance should look like one
        right.set_ylim(1 - 0.03 * (high - 1), high)
        _legend(figure, report, drawn, ideal=False)

    smallest = sorted({runs[0].ranks for _, _, runs in drawn})
    base = f"{smallest[0]} rank{'s' * (smallest[0] != 1)}" if len(smallest) == 1 else "the strategy's smallest run"
    caption = (
        f"Left: throughput per rank, relative to {base}. Right: busy time of the most over the least loaded rank, waiting excluded "
        f"(1 is balanced; {INFINITE}: a rank has no work). Panels as in REAL, Figure 15. {evidence(list(report.runs))}"
    )
    return draw("scaling", "Parallel efficiency and imbalance", caption, (10, _height(report)), paint)


def _panel(axes: Axes, report: Report, values: Callable[[list[Measured]], list[float]]) -> None:
    known = looks(report.strategies)
    for setting, strategy, runs in lines(report):
        look, x, y = known[strategy], [run.ranks for run in runs], values(runs)
        axes.plot(x, [v if math.isfinite(v) else math.nan for v in y], color=look.colour, marker=look.marker, linestyle=dash(setting.kind))
        for ranks, value in zip(x, y, strict=True):
            if value == math.inf:
                axes.text(ranks, 0.97, INFINITE, color=look.colour, ha="center", va="top", transform=axes.get_xaxis_transform())
    axes.yaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
    _rank_axis(axes, report)


def losses(report: Report) -> Drawing:
    """Loss against steps. Curves that coincide stay visible: each is drawn thinner than the one under it."""
    known = looks(report.strategies)
    others = iter([colour for colour in COLOURS[1:] if colour not in {look.colour for look in known.values()}] * len(report.losses))

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (label, values) in enumerate(report.losses.items()):
            owner = max((name for name in known if label == name or label.startswith((f"{name} ", f"{name},"))), key=len, default="")
            colour = known[owner].colour if owner else next(others, COLOURS[(i + 1) % len(COLOURS)])
            width = 1.4 + 1.6 * (len(report.losses) - 1 - i)
            axes.plot(range(len(values)), values, color=colour, linewidth=width, label=label, solid_capstyle="round")
        axes.set_xlabel("step")
        axes.set_ylabel("training loss")
        axes.legend(loc="upper right")

    caption = "Training loss by optimiser step. Curves that lie on one another are drawn as bands of different width."
    return draw("losses", "Loss", caption, (10, 3.4), paint)
