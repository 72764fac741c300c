"""Advice charts: what the figures of `chronoscale advise` and `compare` show, before they are drawn. It needs no matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Mark(NamedTuple):
    """Mark of one candidate of `chronoscale advise` in a report's Pareto chart.

    label: whose colour it has; name: shown where it is on the front; target_us: an epoch's microseconds for each target that it trains on,
    gpu_us: times GPUs; low, high: ends of target_us in nine tenths of the draws, NaN without draws.
    """

    label: str
    name: str
    target_us: float
    gpu_us: float
    front: bool
    low: float = float("nan")
    high: float = float("nan")


class ErrorCurve(NamedTuple):
    """Curve of one strategy: seconds of training after each epoch, and every seed's score there.

    scores: one sequence a seed; a shorter one ended early.
    """

    label: str
    epoch_s: float
    scores: Sequence[Sequence[float]]


class ParetoChart(NamedTuple):
    """Input of `pareto`: the candidates of `chronoscale advise`. name: of the figure's file."""

    name: str
    marks: Sequence[Mark]


class ErrorCurveChart(NamedTuple):
    """Input of `error_curves`: a comparison's scores on validation. name: of the figure's file."""

    name: str
    panels: Mapping[str, Sequence[ErrorCurve]]
    title: str
    naive: Mapping[str, float]
    target: float
    caption: str
    is_error: bool = False


AdviceChart = ParetoChart | ErrorCurveChart
