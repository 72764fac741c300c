"""Charts: a study's drawings, from what its file says of their panels."""

from __future__ import annotations

from typing import Any

from chronoscale.errors import UserError
from chronoscale.harness.study.expressions import Names, filled, loops, value
from chronoscale.harness.study.study_file import Chart
from chronoscale.reports.charts.dots import dots
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.heatmap import heatmaps, matrix
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.charts.ranges import Span, ranges
from chronoscale.reports.charts.stacks import stacks

COLUMNS = 6  # of heatmaps


def drawing(chart: Chart, study: str, title: str, names: Names) -> Drawing:
    """Return the drawing of one entry of a study file's `drawings`, with expressions evaluated, for `chronoscale study` and `reproduce`.

    study: name of the study, such as 'figure-8': the drawing's file is named so, with the chart's suffix. names: name -> value, what the
    chart's expressions may use. Raises UserError for `panels` that do not suit the chart's kind.
    """
    name, caption, unit = f"{study}{chart.suffix}", filled(chart.caption, names), filled(chart.unit, names)
    try:
        if chart.kind == "ranges":
            return ranges(name, title, caption, unit, _spans(value(chart.panels or "rows", names)))
        if chart.kind == "lines":
            return lines(name, title, caption, _panels(chart, names))
        if chart.kind == "matrix":
            return matrix(name, title, caption, value(chart.panels, names))
        panels = _named(chart, names)
        if chart.kind == "heatmaps":
            return heatmaps(name, title, caption, panels, COLUMNS)
        parts = list(value(chart.parts, names))
        return (stacks if chart.kind == "stacks" else dots)(name, title, caption, unit, parts, panels)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"drawing {name}: {type(error).__name__}: {error}") from error


def _spans(rows: list[dict[str, Any]]) -> list[tuple[str, Span, Span]]:
    """Published above ours."""

    def span(line: dict[str, Any], whose: str) -> Span:
        return Span(*(float(line[f"{whose}_{end}"]) for end in ("low", "mean", "high")))

    return [(line["what"], span(line, "published"), span(line, "ours")) for line in rows if "published_low" in line]


def _panels(chart: Chart, names: Names) -> list[Panel]:
    panels = []
    for one in () if isinstance(chart.panels, str) else chart.panels:
        for turn in loops(one.over, names):
            series, fits = value(one.series, turn), value(one.fits, turn)
            title, x, y = (filled(text, turn) for text in (one.title, one.x, one.y))
            panels.append(Panel(title, x, y, series, fits, one.scale, one.style, one.diagonal))
    return panels


def _named(chart: Chart, names: Names) -> Any:
    """Bars or dots by panel: title -> label -> numbers; of heatmaps their list."""
    if isinstance(chart.panels, str):
        return value(chart.panels, names)
    return {filled(one.title, turn): value(one.series, turn) for one in chart.panels for turn in loops(one.over, names)}
