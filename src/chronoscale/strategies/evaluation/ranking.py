"""Ranking: whether predictions put strategies in the order that measurements do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

Order = Literal["right", "wrong", "predicted alike", "within spread", "one repeat"]


class EpochTimes(NamedTuple):
    """Epoch time of a strategy, predicted and measured (the median), with the spread of the measured repeats (`Summary.spread_s`)."""

    strategy: str
    predicted_s: float
    measured_s: float
    spread_s: float
    repeats: int


class StrategyPair(NamedTuple):
    """Two strategies in their measured order, and whether the simulator predicts that order. measured, predicted: slower over faster;
    spread: of both, relative to the faster.

    order: "right" or "wrong" where the measured difference exceeds the spread of both; where it does not, measurements have no order that a
    prediction could miss, and with one repeat nobody knows their spread.
    """

    faster: str
    slower: str
    measured: float
    predicted: float
    spread: float
    order: Order


def compare_pairs(times: Sequence[EpochTimes]) -> list[StrategyPair]:
    """Compare every two strategies by predicted and by measured epoch time: whether predictions put them in the measured order.

    Returns for each two which was measured to be faster, how many times, as predicted too, and whether the order is right beyond the spread
    of repeats. Those without a measured or predicted time are left out.
    """
    timed = [epoch for epoch in times if epoch.measured_s > 0 and epoch.predicted_s > 0]
    return [_pair(*sorted(two, key=lambda one: one.measured_s)) for two in combinations(timed, 2)]


def _pair(faster: EpochTimes, slower: EpochTimes) -> StrategyPair:
    """Return the comparison of two strategies, the first of which was measured to be no slower."""
    spread = faster.spread_s + slower.spread_s
    order: Order = "right" if faster.predicted_s < slower.predicted_s else "wrong"
    if faster.predicted_s == slower.predicted_s:  # strategies may plan the same rows
        order = "predicted alike"
    if min(faster.repeats, slower.repeats) < 2:
        order = "one repeat"
    elif slower.measured_s - faster.measured_s <= spread:
        order = "within spread"
    ratios = slower.measured_s / faster.measured_s, slower.predicted_s / faster.predicted_s
    return StrategyPair(faster.strategy, slower.strategy, *ratios, spread / faster.measured_s, order)


def rank_correlation(times: Sequence[EpochTimes]) -> float:
    """Return how well predicted epoch times put strategies in their measured order: Kendall's tau-b, -1 (reversed) to 1 (same order), NaN
    for fewer than two strategies or where all are alike.

    It counts differences within the spread, too: `compare_pairs` says which mean something.
    """
    if len(times) < 2:
        return float("nan")
    predicted, measured = (
        np.array([np.sign(one - two) for one, two in combinations(seconds, 2)])
        for seconds in ([epoch.predicted_s for epoch in times], [epoch.measured_s for epoch in times])
    )
    untied = np.sqrt(float(np.abs(predicted).sum()) * float(np.abs(measured).sum()))
    return float(predicted @ measured) / untied if untied else float("nan")
