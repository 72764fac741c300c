"""The simplest rivals of forecasters: the last reading again, and the mean of the training period."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.rivals.rival import SignalRival
from chronoscale.batching.signals.standardisation import block_bounds
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

LAST, MEAN = "last value", "training mean"
BLOCK_BYTES = 1 << 24


class LastValue(SignalRival):
    """Rival that repeats the last reading of a window (the random walk's forecast)."""

    name = LAST
    meaning = "the last reading of the window again"

    def __init__(self, window: int) -> None:
        self._window = window

    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        x = readings.steps(ends.start - self._window, ends.stop - 1)
        step = np.where(np.isnan(x), -1, np.arange(len(x))[:, None])
        starts = np.arange(len(ends))
        latest = np.maximum.accumulate(step)[starts + self._window - 1]  # of each window's end: the last step with a reading
        last = np.where(latest >= starts[:, None], np.take_along_axis(x, np.maximum(latest, 0), 0), np.nan)
        return np.broadcast_to(last, (horizon, *last.shape))


class TrainingMean(SignalRival):
    """Rival that predicts every sensor's mean over the training period."""

    name = MEAN
    meaning = "each sensor's mean over the training period"

    def __init__(self, means: Float64) -> None:
        self._means = means

    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        return np.broadcast_to(self._means, (horizon, len(ends), self._means.size))


def training_means(signal: Signal, windows: Windows) -> Float64:
    """Compute each sensor's mean of channel 0 over the steps that training windows read, float64 [N]; the mean of all sensors for one
    without a reading there."""
    readings = Readings(signal)
    total, count = np.zeros(signal.num_nodes), np.zeros(signal.num_nodes)
    for first, stop in block_bounds(signal, 0, windows.training_steps, BLOCK_BYTES):
        x = readings.steps(first, stop)
        total, count = total + np.nansum(x, 0), count + (~np.isnan(x)).sum(0)
    everywhere = total.sum() / max(count.sum(), 1)
    return np.where(count > 0, total / np.maximum(count, 1), everywhere)
