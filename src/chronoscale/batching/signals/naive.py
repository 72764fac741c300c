"""Naive predictions of a signal, which a model has to beat: the last reading again, and the mean of the training period."""

from __future__ import annotations

import math

import numpy as np

from chronoscale.batching.signals.standardisation import block_bounds, read_steps
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

LAST, MEAN = "last value", "training mean"
BLOCK_BYTES = 1 << 24
SMALL = 1e-3  # targets of magnitude up to here have no relative error


def naive_errors(signal: Signal, windows: Windows, evaluated: range | None = None) -> dict[str, dict[str, float]]:
    """Compute the errors of two predictions of a signal without training, which a model has to beat: MAE, RMSE and MAPE by key, for each of
    LAST and MEAN. They are of channel 0, over all steps that the `evaluated` windows (None: the test windows) predict, in the units of the
    data; missing readings are left out, as in a model's errors. Empty where no reading is there.

    LAST: the last reading of the window; MEAN where it has none. MEAN: the sensor's mean over the steps that training windows read; of all
    sensors where it has none there.
    """
    test = windows.test if evaluated is None else evaluated
    mean = training_means(signal, windows)
    sums = {name: np.zeros(5) for name in (LAST, MEAN)}
    for first, stop in block_bounds(signal, test.start, test.stop, BLOCK_BYTES):
        x = read_steps(signal, first, stop + windows.reach - 1)[:, :, 0].astype(np.float64)
        starts = np.arange(stop - first)
        step = np.where(np.isnan(x), -1, np.arange(len(x))[:, None])
        latest = np.maximum.accumulate(step)[starts + windows.window - 1]  # of each window's end: the last step with a reading
        last = np.where(latest >= starts[:, None], np.take_along_axis(x, np.maximum(latest, 0), 0), mean)
        for ahead in range(windows.horizon):
            target = x[starts + windows.window + ahead]
            sums[LAST] += _sum_errors(last, target)
            sums[MEAN] += _sum_errors(np.broadcast_to(mean, target.shape), target)
    return {name: _scores(*map(float, totals)) for name, totals in sums.items()}


def _scores(absolute: float, squared: float, relative: float, targets: float, counted: float) -> dict[str, float]:
    if not targets:
        return {}
    return {"mae": absolute / targets, "rmse": math.sqrt(squared / targets), "mape": relative / counted if counted else math.nan}


def training_means(signal: Signal, windows: Windows) -> Float64:
    """Compute each sensor's mean of channel 0 over the steps that training windows read, float64 [N]; the mean of all sensors for one
    without a reading there."""
    total, count = np.zeros(signal.num_nodes), np.zeros(signal.num_nodes)
    for first, stop in block_bounds(signal, 0, windows.training_steps, BLOCK_BYTES):
        x = read_steps(signal, first, stop)[:, :, 0].astype(np.float64)
        total, count = total + np.nansum(x, 0), count + (~np.isnan(x)).sum(0)
    everywhere = total.sum() / max(count.sum(), 1)
    return np.where(count > 0, total / np.maximum(count, 1), everywhere)


def _sum_errors(prediction: Float64, target: Float64) -> Float64:
    """Return absolute, squared and relative errors, the number of targets, the number that the relative error counts; float64 [5]."""
    known = ~np.isnan(target)
    truth = target[known]
    error = np.abs(prediction[known] - truth)
    relative = np.abs(truth) > SMALL
    share = error[relative] / np.abs(truth[relative])
    return np.array([error.sum(), np.square(error).sum(), share.sum(), known.sum(), relative.sum()], np.float64)
