"""Curves: epoch time, parallel efficiency and imbalance against the number of ranks; losses against steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import matplotlib.ticker as ticks
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import MUTED, dash, looks
from chronoscale.reports.findings import evidence
from chronoscale.reports.numbers import INFINITE
from chronoscale.reports.section import Section
from chronoscale.reports.strategy_result import Band, StrategyResult
from chronoscale.reports.tables import efficiency

SHADE = 0.18  # how dense a band is
SHADED = "Shaded: nine tenths of the draws."


def labelled_curves(section: Section) -> list[tuple[str, list[StrategyResult]]]:
    """Return the curves of a report's section: label, and its results with ranks ascending."""
    curves = [(label, section.curve(label)) for label in section.labels]
    return [line for line in curves if line[1]]


def has_several_counts(section: Section) -> bool:
    """Return whether any strategy of a report's section ran on more than one number of ranks, so that curves mean something."""
    return any(len(runs) > 1 for _, runs in labelled_curves(section))


def _columns(labels: list[str]) -> int:
    """Return how many legend entries fit side by side."""
    return max(1, min(len(labels), 130 // (max(map(len, labels)) + 9)))


def _height(section: Section) -> float:
    """Return the height of a figure with curves (inches): more under a legend of several rows."""
    labels = [label for label, _ in labelled_curves(section)]
    return 3.8 + 0.18 * (math.ceil((len(labels) + 1) / _columns(labels)) - 1)


def _legend(figure: Figure, section: Section, ideal: bool) -> None:
    """Add a legend of curves above a figure."""
    looks_by_label = looks(section.report_labels)
    labels = [label for label, _ in labelled_curves(section)]
    line = dash(section.kind)
    handles = [Line2D([], [], color=looks_by_label[label].colour, marker=looks_by_label[label].marker, linestyle=line) for label in labels]
    if ideal:
        handles.append(Line2D([], [], color=MUTED, linewidth=0.9, linestyle=":"))
        labels.append("ideal")
    figure.legend(handles, labels, loc="outside upper left", ncols=_columns(labels), handlelength=3.4)


def _rank_axis(axes: Axes, section: Section) -> None:
    """Make the horizontal axis one of rank counts, logarithmic."""
    counts = sorted({run.ranks for run in section.comparable})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticks.FixedLocator(counts))
    axes.xaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(ticks.NullLocator())
    axes.set_xlabel(f"ranks, {section.kind}")
    axes.grid(axis="x", visible=False)


def epoch_time(section: Section) -> Drawing:
    """Draw a report's curves of epoch seconds against ranks, both logarithmic, with ideal scaling of the baseline.

    Whiskers where there are repeats, a shaded band where there are draws.
    """
    curves, looks_by_label = labelled_curves(section), looks(section.report_labels)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for label, runs in curves:
            look = looks_by_label[label]
            x, y = [run.ranks for run in runs], [run.summary.epoch_s for run in runs]
            axes.plot(x, y, color=look.colour, marker=look.marker, linestyle=dash(section.kind))
            spread = [run.summary.spread_s for run in runs]
            if runs[0].draws_s:
                _shade(axes, runs, [run.band for run in runs], look.colour)
            elif any(spread):
                axes.errorbar(x, y, yerr=spread, fmt="none", ecolor=look.colour, elinewidth=1.2, capsize=3)
            if runs[0].strategy == section.baseline and len(runs) > 1:
                axes.plot(x, [y[0] * x[0] / ranks for ranks in x], color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticks.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(ticks.NullLocator())
        axes.set_ylabel("epoch, s")
        _rank_axis(axes, section)
        _legend(figure, section, ideal=True)

    shaded = f"{SHADED} " * any(run.draws_s for run in section.comparable)
    ideal = f"The dotted line is {section.baseline} with perfect scaling."
    caption = f"Time of one epoch; lower is better. {ideal} {shaded}{evidence(section.comparable)}"
    return draw(f"{section.file}epoch_time", "Epoch time", caption, (10, _height(section)), paint)


def scaling(section: Section) -> Drawing:
    """Draw a report's curves of parallel efficiency and of imbalance against ranks: the two panels of REAL, Figure 15."""
    curves = labelled_curves(section)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _panel(left, section, lambda runs: [100 * value for value in efficiency(runs).values()])
        _efficiency_bands(left, section)
        left.set_ylabel("parallel efficiency, %")
        left.set_ylim(0, max(104, left.get_ylim()[1]))
        left.axhline(100, color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
        _panel(right, section, lambda runs: [run.summary.imbalance for run in runs])
        right.set_ylabel("imbalance ratio, most / least loaded")
        high = max(1.1, right.get_ylim()[1])  # a hundredth of imbalance should look like one
        right.set_ylim(1 - 0.03 * (high - 1), high)
        _legend(figure, section, ideal=False)

    smallest = sorted({runs[0].ranks for _, runs in curves})
    base = f"{smallest[0]} rank{'s' * (smallest[0] != 1)}" if len(smallest) == 1 else "the strategy's smallest run"
    caption = (
        f"Left: throughput per rank, relative to {base}. Right: busy time of the most over the least loaded rank, waiting excluded "
        f"(1 is balanced; {INFINITE} means that a rank has no work). The panels are those of REAL, Figure 15. "
        f"{f'{SHADED} ' * any(run.draws_s for run in section.comparable)}{evidence(section.comparable)}"
    )
    return draw(f"{section.file}scaling", "Parallel efficiency and imbalance", caption, (10, _height(section)), paint)


def _efficiency_bands(axes: Axes, section: Section) -> None:
    """Shade the efficiency of draws, in percent, each against the same draw of the curve's smallest run."""
    for label, runs in labelled_curves(section):
        if runs[0].draws_s:
            ratios = [Band(1.0, 1.0), *(run.speedup_band(runs[0]) for run in runs[1:])]
            ideal = [100 * runs[0].ranks / run.ranks for run in runs]
            bands = [Band(band.low * share, band.high * share) for band, share in zip(ratios, ideal, strict=True)]
            _shade(axes, runs, bands, looks(section.report_labels)[label].colour)


def _shade(axes: Axes, runs: list[StrategyResult], bands: list[Band], colour: str) -> None:
    """Shade the band around a curve."""
    low, high = [band.low for band in bands], [band.high for band in bands]
    axes.fill_between([run.ranks for run in runs], low, high, color=colour, alpha=SHADE, linewidth=0)


def _panel(axes: Axes, section: Section, values: Callable[[list[StrategyResult]], list[float]]) -> None:
    """Draw a curve a label of `values` by rank count; infinite ones as a sign at the top."""
    looks_by_label = looks(section.report_labels)
    for label, runs in labelled_curves(section):
        look = looks_by_label[label]
        x, y = [run.ranks for run in runs], values(runs)
        axes.plot(x, [v if math.isfinite(v) else math.nan for v in y], color=look.colour, marker=look.marker, linestyle=dash(section.kind))
        for ranks, value in zip(x, y, strict=True):
            if value == math.inf:
                axes.text(ranks, 0.97, INFINITE, color=look.colour, ha="center", va="top", transform=axes.get_xaxis_transform())
    axes.yaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
    _rank_axis(axes, section)


def losses(section: Section) -> Drawing:
    """Draw a report's curves of training loss against steps, a panel a number of ranks.

    Curves that coincide stay visible: each is drawn thinner than the one under it.
    """
    looks_by_label, panels = looks(section.report_labels), section.by_ranks([run for run in section.runs if run.losses])

    def paint(figure: Figure) -> None:
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True).ravel()
        for axes, (ranks, runs) in zip(grid, panels.items(), strict=True):
            for i, run in enumerate(runs):
                label = section.label(run)
                axes.plot(range(len(run.losses)), run.losses, color=looks_by_label[label].colour, linewidth=1.4 + 1.2 * (len(runs) - 1 - i))
            axes.set_title(f"{ranks} rank{'s' * (ranks != 1)}, {section.kind}")
            axes.set_xlabel("step")
        grid[0].set_ylabel("training loss")
        labels = [label for label in section.labels if any(section.label(run) == label for runs in panels.values() for run in runs)]
        handles = [Line2D([], [], color=looks_by_label[label].colour) for label in labels]
        figure.legend(handles, labels, loc="outside upper left", ncols=_columns(labels))

    caption = "Training loss after each optimiser step. Curves that coincide are drawn as bands of different width."
    return draw(f"{section.file}losses", "Loss", caption, (10, 3.6), paint)
