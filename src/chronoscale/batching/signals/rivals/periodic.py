"""Rivals of forecasters that know a period: the reading of one period before, and the average of the training period by step of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.batching.signals.rivals.periods import Period
from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.rivals.rival import SignalRival
from chronoscale.batching.signals.standardisation import block_bounds
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

BACK = 7  # periods that are looked back at most, past missing readings
BLOCK_BYTES = 1 << 24


class PeriodBefore(SignalRival):
    """Rival that repeats the reading of one period before (the seasonal naive forecast): of the latest that the window's end knows; where
    it is missing of one before that, and so on, BACK in all."""

    def __init__(self, period: Period) -> None:
        self._period = period.steps
        self.name = period.again
        self.meaning = f"the reading {period.steps} steps before, or where it is missing a period earlier; {period.known}"

    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        result = np.full((horizon, len(ends), readings.sensors), np.nan)
        for ahead in range(horizon):
            first = ahead // self._period + 1  # periods back: the latest that the window's end knows
            for back in range(first, first + BACK):
                missing = np.isnan(result[ahead])
                if not missing.any():
                    break
                shift = ahead - back * self._period
                np.copyto(result[ahead], readings.steps(ends.start + shift, ends.stop + shift), where=missing)
        return result


class HistoricalAverage(SignalRival):
    """Rival that predicts a sensor's mean at that step of the period, such as the time of day, over the training period."""

    def __init__(self, signal: Signal, windows: Windows, periods: Sequence[Period]) -> None:
        """periods: the one by whose steps readings are averaged first; where it has none, the next."""
        self.name = periods[0].average
        self.meaning = f"each sensor's mean over the training period at that step of {periods[0].steps}; {periods[0].known}"
        self._tables = [_averages(signal, windows, period.steps) for period in periods]

    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        steps = np.arange(horizon)[:, None] + np.arange(ends.start, ends.stop)
        first, *others = self._tables
        result: Float64 = first[steps % len(first)]
        for table in others:
            result = np.where(np.isnan(result), table[steps % len(table)], result)
        return result


def _averages(signal: Signal, windows: Windows, period: int) -> Float64:
    """Return each sensor's mean over the training period at every step of a period, float64 [period, N]; NaN where it has no reading."""
    total, count = np.zeros((period, signal.num_nodes)), np.zeros((period, signal.num_nodes))
    readings = Readings(signal)
    for begin, end in block_bounds(signal, 0, windows.training_steps, BLOCK_BYTES):
        for first in range(begin, end, period):  # no step of the period twice at once
            x = readings.steps(first, min(first + period, end))
            at = np.arange(first, first + len(x)) % period
            total[at] += np.nan_to_num(x)
            count[at] += ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        return total / count
