"""Drawings of advice charts."""

from __future__ import annotations

from chronoscale.reports.charts.advice_chart import AdviceChart, ParetoChart
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.charts.error_curves import error_curves
from chronoscale.reports.charts.pareto import pareto


def draw_advice(chart: AdviceChart) -> Drawing:
    """Draw the figure of a run of `chronoscale advise` or `compare`."""
    return pareto(*chart) if isinstance(chart, ParetoChart) else error_curves(*chart)
