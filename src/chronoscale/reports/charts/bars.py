"""Bar charts: epoch time at one rank count, time by operation, fidelity, and the timeline of one iteration."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import INK, MUTED, OPS, ink_on, looks
from chronoscale.reports.findings import evidence
from chronoscale.reports.numbers import MISSING, number, seconds
from chronoscale.reports.section import Section
from chronoscale.reports.strategy_result import StrategyResult
from chronoscale.strategies.schedule import Lane, Op

SHOWN = 8  # ranks in a timeline
LABELLED = 0.07  # share of the axis from which a segment carries its number
DENSE = 4000  # bars from which a timeline is stored as pixels
PALE = 0.28


def _legend(figure: Figure, ops: list[Op]) -> None:
    """Add a legend of operations above a figure."""
    handles = [Patch(facecolor=OPS[op], label=op.name.lower()) for op in ops]
    columns = math.ceil(len(ops) / math.ceil(max(len(ops), 1) / 9))
    figure.legend(handles=handles, loc="outside upper left", ncols=max(columns, 1), handlelength=1.1, handleheight=1.0, columnspacing=1.4)


def _clean(axes: Axes) -> None:
    """Remove the vertical axis's line, ticks and grid from a chart of horizontal bars."""
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def epoch_bars(section: Section) -> Drawing:
    """Draw the epoch seconds of every result, for a report's section with one number of ranks; simulated bars are hollow."""
    looks_by_label = looks(section.report_labels)
    runs = [run for group in section.by_ranks(section.comparable).values() for run in group]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        longest = max(run.summary.epoch_s + run.summary.spread_s for run in runs) or 1.0
        for y, run in enumerate(runs):
            colour = looks_by_label[section.label(run)].colour
            summary, executed = run.summary, run.kind == "executed"
            axes.barh(
                y, summary.epoch_s, 0.62, facecolor=colour if executed else "white", edgecolor=colour, linestyle="-" if executed else "--"
            )
            if summary.spread_s:
                axes.errorbar(summary.epoch_s, y, xerr=summary.spread_s, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
            axes.text(summary.epoch_s + summary.spread_s + longest * 0.012, y, seconds(summary.epoch_s), va="center")
        axes.set_yticks(range(len(runs)), [f"{section.label(run)}, {run.ranks} rank{'s' * (run.ranks != 1)}" for run in runs])
        axes.set_xlim(0, longest * 1.12)
        axes.invert_yaxis()
        axes.set_xlabel(f"epoch, s, {section.kind}")
        _clean(axes)

    caption = f"Time of one epoch; lower is better. {evidence(runs)}"
    return draw(f"{section.file}epoch_time", "Epoch time", caption, (10, 0.9 + 0.36 * len(runs)), paint)


def time_by_op(section: Section) -> Drawing:
    """Draw a report's stacked bars of the seconds that a rank spends in each operation, on the fewest and on the most ranks."""
    by_ranks = section.by_ranks()
    panels = [(ranks, by_ranks[ranks]) for ranks in dict.fromkeys([min(by_ranks), max(by_ranks)])]
    ops = [op for op in Op if any(run.op_seconds.get(op.name, 0.0) > 0 for _, runs in panels for run in runs)]
    tallest = max(len(runs) for _, runs in panels)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(1, len(panels), squeeze=False).ravel()
        for axes, (ranks, runs) in zip(grid, panels, strict=True):
            _stack(axes, section, runs, ops)
            axes.set_title(f"{ranks} rank{'s' * (ranks != 1)}, {section.kind}")
        _legend(figure, ops)

    caption = (
        "Mean time of a rank in each operation. Black marks show the epoch. Lanes overlap: a bar that reaches beyond the marks was partly "
        f"hidden behind other work, and a gap before them is waiting. {evidence([run for _, runs in panels for run in runs])}"
    )
    return draw(f"{section.file}time_by_op", "Time by operation", caption, (10, 1.65 + 0.42 * tallest), paint)


def _stack(axes: Axes, section: Section, runs: list[StrategyResult], ops: list[Op]) -> None:
    """Draw a bar a result, stacked by operation, with marks at the length of the epoch."""
    widest = max([*(float(run.op_seconds.sum()) / run.ranks for run in runs), *(run.summary.epoch_s for run in runs)]) or 1.0
    scale, unit = (1.0, "s") if widest >= 1 else (1e3, "ms")
    for y, run in enumerate(runs):
        left = 0.0
        for op in ops:
            length = float(run.op_seconds.get(op.name, 0.0)) / run.ranks * scale
            axes.barh(y, length, 0.62, left, color=OPS[op], edgecolor="white", linewidth=0.5)
            if length > LABELLED * widest * scale:
                axes.text(left + length / 2, y, number(length, 2), ha="center", va="center", color=ink_on(OPS[op]), fontsize=8)
            left += length
        for low, high in ((y - 0.48, y - 0.31), (y + 0.31, y + 0.48)):
            axes.plot([run.summary.epoch_s * scale] * 2, [low, high], color=INK, linewidth=2.2, solid_capstyle="butt")
    axes.set_yticks(range(len(runs)), [section.label(run) for run in runs])
    axes.set_xlim(0, widest * scale * 1.03)
    axes.invert_yaxis()
    axes.set_xlabel(f"{unit} a rank")
    _clean(axes)


def fidelity(section: Section) -> Drawing:
    """Draw the error of the simulator's prediction in each operation, a panel a strategy and number of ranks, for a report.

    Whiskers show the measurement's own spread.
    """
    looks_by_label = looks(section.report_labels)
    panels = [(section.label(run), run.ranks, run.prediction.frame) for run in section.runs if run.prediction]
    columns = min(3, len(panels))
    longest = max(len(frame) for *_, frame in panels)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(math.ceil(len(panels) / columns), columns, squeeze=False, sharex=True).ravel()
        for axes, (label, ranks, frame) in zip(grid, panels, strict=False):
            for y, (error, spread) in enumerate(zip(frame["error_pct"], frame["spread_pct"], strict=True)):
                if math.isfinite(error):
                    axes.barh(y, error, 0.6, color=looks_by_label[label].colour, alpha=1.0 if frame["op"].iloc[y] == "TOTAL" else 0.6)
                    axes.errorbar(error, y, xerr=spread if math.isfinite(spread) else 0, fmt="none", ecolor=INK, elinewidth=1, capsize=2.5)
                else:
                    axes.text(0, y, f" {MISSING}", va="center", color=MUTED)
            axes.axvline(0, color=INK, linewidth=0.8)
            axes.set_yticks(range(len(frame)), [str(op).lower() if op != "TOTAL" else "epoch" for op in frame["op"]])
            axes.invert_yaxis()
            axes.set_title(f"{label}, {ranks} rank{'s' * (ranks != 1)}")
            axes.set_xlabel("predicted − measured, %")
            axes.tick_params(labelbottom=True)
            _clean(axes)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()

    caption = (
        "Error of the simulated prediction against the measurement of the same schedule. Whiskers show the spread of the repeats: "
        "a smaller error cannot be told from noise."
    )
    height = 0.3 + math.ceil(len(panels) / columns) * (0.9 + 0.25 * longest)
    return draw(f"{section.file}fidelity", "Fidelity", caption, (10, height), paint)


def timelines(section: Section) -> list[Drawing]:
    """Draw a report's timelines, one figure for each result that has one, on a common time axis for those on as many ranks."""
    runs = [run for run in section.runs if run.timeline is not None and len(run.timeline)]
    drawings = []
    for i, run in enumerate(runs):
        peers = [other.timeline.span_ns for other in runs if other.timeline and other.ranks == run.ranks]
        drawings.append(_timeline(section, run, max(peers), f"{section.file}timeline-{i + 1}"))
    return drawings


def _timeline(section: Section, run: StrategyResult, span_ns: int, name: str) -> Drawing:
    """Draw the timeline of one result on an axis of `span_ns`; of many ranks the most and the least loaded."""
    timeline = run.timeline
    assert timeline is not None
    ranks = timeline.extremes(SHOWN)
    total = len(np.unique(timeline.rank))
    drawn_rows = np.isin(timeline.rank, ranks)
    rows = np.unique(np.stack([timeline.rank[drawn_rows], timeline.lane[drawn_rows].astype(np.int32)]), axis=1).T
    scale, unit = (1e9, "s") if span_ns >= 2e9 else (1e6, "ms") if span_ns >= 2e6 else (1e3, "µs")

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for y, (rank, lane) in enumerate(rows):
            bar_rows = np.flatnonzero((timeline.rank == rank) & (timeline.lane == lane))
            bars = list(zip(timeline.start_ns[bar_rows] / scale, (timeline.end_ns - timeline.start_ns)[bar_rows] / scale, strict=True))
            colours = [
                to_rgba(OPS[Op(code)], 1.0 if own else PALE)
                for code, own in zip(timeline.op[bar_rows], timeline.own[bar_rows], strict=True)
            ]
            axes.broken_barh(
                bars, (y - 0.4, 0.8), facecolors=colours, edgecolor="white", linewidth=0.3, rasterized=drawn_rows.sum() > DENSE
            )
            if y and rank != rows[y - 1][0]:
                axes.axhline(y - 0.5, color=MUTED, linewidth=0.5)
        axes.set_yticks(range(len(rows)), [_row(rows, y) for y in range(len(rows))])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, max(span_ns, 1) / scale)
        axes.set_xlabel(f"{unit} from the first start")
        _clean(axes)
        _legend(figure, [op for op in Op if (timeline.op[drawn_rows] == op).any()])

    pale = "" if timeline.own[drawn_rows].all() else " Pale bars are tasks of other iterations that ran at the same time."
    cut = f" {len(ranks)} of {total} ranks are shown, the most and the least loaded." if total > len(ranks) else ""
    caption = f"Tasks of iteration {timeline.iteration}; each row is a lane of a rank.{pale}{cut} {evidence([run])}"
    title = f"Timeline: {section.label(run)}, {run.ranks} rank{'s' * (run.ranks != 1)}, {run.kind}"
    return draw(name, title, caption, (10, 1.2 + 0.19 * len(rows)), paint)


def _row(rows: NDArray[np.int32], y: int) -> str:
    """Return the label of a row of a timeline; the rank stands at its first lane."""
    rank, lane = rows[y]
    name = Lane(lane).name.lower()
    return f"rank {rank}   {name}" if not y or rank != rows[y - 1][0] else name
