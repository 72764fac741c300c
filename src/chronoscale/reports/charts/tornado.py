"""Tornado chart: how far each assumption moves epochs and speed-ups, the largest effect on top."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS, INK
from chronoscale.reports.findings import evidence
from chronoscale.reports.numbers import number
from chronoscale.reports.section import Section
from chronoscale.reports.sensitivity import AssumptionEffect, Ends, StrategyEffect, largest_effects

LOW, HIGH = COLOURS[6], COLOURS[2]
COLUMNS = 3


class Panel(NamedTuple):
    """Panel of a report's tornado chart: one quantity as simulated, and at both ends of each assumption's range."""

    title: str
    unit: str
    middle: float
    ends: list[tuple[float, float]]


def tornado(section: Section) -> Drawing:
    """Draw a report's tornado chart: how far each assumption of a simulation moves epochs and speed-ups, the largest effect on top.

    A panel for each strategy's epoch, and one for each speed-up over the baseline; a row an assumption.
    """
    effects = largest_effects(section)
    panels = _panels(section, effects)
    lines = math.ceil(len(panels) / COLUMNS)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(lines, min(COLUMNS, len(panels)), squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _paint(axes, panel, effects)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.legend(
            handles=[Patch(color=LOW, label="first end"), Patch(color=HIGH, label="second end")], loc="outside upper left", ncols=2
        )

    caption = (
        f"What the answers on {effects[0].ranks} ranks rest on: the same plan with one assumption at either end of its range, for the "
        f"{len(effects)} assumptions that matter most. The line is the unchanged simulation without jitter. {evidence(section.comparable)}"
    )
    return draw(f"{section.file}tornado", "What it rests on", caption, (10, 0.5 + lines * (0.9 + 0.28 * len(effects))), paint)


def _panels(section: Section, effects: list[AssumptionEffect]) -> list[Panel]:
    """Return the panels of all strategies: epochs first, then speed-ups."""
    names = list(dict.fromkeys(strategy_effect.strategy for effect in effects for strategy_effect in effect.strategies))
    epochs = [_panel(name, "epoch, s", [_ends_of(effect, name, StrategyEffect.times) for effect in effects]) for name in names]
    gains = [
        _panel(f"{name} over {section.baseline}", "times as fast", [_ends_of(effect, name, StrategyEffect.gains) for effect in effects])
        for name in names
    ]
    return [panel for panel in (*epochs, *gains) if math.isfinite(panel.middle)]


def _ends_of(effect: AssumptionEffect, name: str, values: Callable[[StrategyEffect], Ends]) -> Ends | None:
    """Return the values of one strategy under an assumption; None where it does not move the strategy."""
    return next((values(strategy_effect) for strategy_effect in effect.strategies if strategy_effect.strategy == name), None)


def _panel(title: str, unit: str, values_by_assumption: list[Ends | None]) -> Panel:
    """Return the panel of one quantity. values_by_assumption: a row an assumption, None where it does not move the quantity."""
    middle = next(values[0] for values in values_by_assumption if values is not None)
    return Panel(title, unit, middle, [(middle, middle) if values is None else (values[1], values[2]) for values in values_by_assumption])


def _paint(axes: Axes, panel: Panel, effects: list[AssumptionEffect]) -> None:
    """Draw a bar from the middle to either end of each assumption."""
    for y, (effect, ends) in enumerate(zip(effects, panel.ends, strict=True)):
        for end, end_text, colour in zip(ends, (effect.low, effect.high), (LOW, HIGH), strict=True):
            if end != panel.middle:
                axes.barh(y, end - panel.middle, 0.62, panel.middle, color=colour)
                side = "left" if end > panel.middle else "right"
                axes.annotate(
                    end_text, (end, y), (3 if side == "left" else -3, 0), textcoords="offset points", ha=side, va="center", fontsize=7
                )
    axes.axvline(panel.middle, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(effects)), [effect.assumption for effect in effects])
    axes.invert_yaxis()
    axes.margins(x=0.22)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title(f"{panel.title}: {number(panel.middle, 3)}")
    axes.set_xlabel(panel.unit)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
