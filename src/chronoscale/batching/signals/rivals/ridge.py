"""Ridge regression on a window's lags: the linear rival of forecasters."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.rivals.rival import SignalRival
from chronoscale.batching.signals.standardisation import block_bounds
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

PENALTIES = 10.0 ** np.arange(-5, 2)  # of the weights' squares, as shares of the standardised readings' mean square
SAMPLES = 1 << 24  # windows of sensors that are fitted to at most
BLOCK_BYTES = 1 << 20


class RidgeOnLags(SignalRival):
    """Rival that predicts every step by one linear function of the window's readings, the same for all sensors (ridge regression, Hoerl and
    Kennard 1970).

    Readings count as what they are above the sensor's mean of the training period, over the deviation of all; a missing one as 0. Weights
    are fitted to training windows, each step's penalty is the one of PENALTIES whose squared error on the validation windows is the least.
    Of very large signals every k-th window is fitted to, SAMPLES readings in all.
    """

    name = "ridge regression on the window"

    def __init__(self, signal: Signal, windows: Windows, means: Float64) -> None:
        """means: float64 [N], of the sensors over the training period."""
        self._window, self._means = windows.window, means
        readings = Readings(signal)
        known = windows.test.start + windows.window - windows.reach + 1  # windows before it predict nothing that the first test window does
        train, validation = (range(part.start, max(min(part.stop, known), part.start)) for part in (windows.train, windows.validation))
        every = max(len(train) * signal.num_nodes // SAMPLES, 1)
        fitted = self._products(signal, readings, train, windows.horizon, every)
        tried = self._products(signal, readings, validation, windows.horizon, every)
        self._weights = np.stack([_fit(*step) for step in zip(*fitted, *tried, strict=True)])
        of = f"every {every}th training window" if every > 1 else "the training windows"
        penalty = "its penalty chosen by validation" if tried[1].any() else "with a fixed penalty"
        self.meaning = f"a linear function of the window's {windows.window} readings, fitted to {of}, {penalty}"

    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        steps = self._lags(readings, ends) @ self._weights.T
        return steps.T.reshape(horizon, len(ends), -1) + self._means

    def _lags(self, readings: Readings, ends: range) -> Float64:
        """Return the windows' readings above the sensors' means, [B * N, window], 0 where there is none."""
        x = np.nan_to_num(readings.steps(ends.start - self._window, ends.stop - 1) - self._means)
        return sliding_window_view(x, self._window, axis=0).reshape(-1, self._window)

    def _products(self, signal: Signal, readings: Readings, starts: range, horizon: int, every: int) -> tuple[Float64, Float64]:
        """Sum up the products of lags with each other, [H, W, W], and with targets, [H, W], over every `every`-th of the windows `starts`,
        where there is a target."""
        gram, cross = np.zeros((horizon, self._window, self._window)), np.zeros((horizon, self._window))
        for first, stop in block_bounds(signal, starts.start, starts.stop, BLOCK_BYTES):
            chosen = np.repeat(np.arange(first, stop) % every == 0, readings.sensors)
            lags = self._lags(readings, range(first + self._window, stop + self._window))[chosen]
            y = readings.steps(first + self._window, stop + self._window + horizon - 1) - self._means
            whole = lags.T @ lags
            for ahead in range(horizon):
                target = y[ahead : ahead + stop - first].ravel()[chosen]
                missing = np.isnan(target)
                without = lags[missing]
                gram[ahead] += whole - without.T @ without
                cross[ahead] += np.where(missing, 0, target) @ lags
        return gram, cross


def _fit(gram: Float64, cross: Float64, tried_gram: Float64, tried_cross: Float64) -> Float64:
    """Return the weights of the penalty that validates best, float64 [W], from the products of lags [W, W], and of lags with targets [W];
    of two penalties that validate alike, and without validation, those of the middle one or the one before it."""
    scale = np.trace(gram) / len(gram)
    if not scale:
        return np.zeros_like(cross)
    weights = [np.linalg.solve(gram + penalty * scale * np.eye(len(gram)), cross) for penalty in PENALTIES]
    error = [w @ tried_gram @ w - 2 * w @ tried_cross for w in weights]  # squares of targets, which all share, are left out
    return weights[int(np.argmin(error))] if tried_cross.any() else weights[len(weights) // 2]
