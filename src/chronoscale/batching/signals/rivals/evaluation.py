"""Errors of the rivals of forecasters: what predictions of a signal without a network reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.signals.rivals.constant import LastValue, TrainingMean, training_means
from chronoscale.batching.signals.rivals.periodic import HistoricalAverage, PeriodBefore
from chronoscale.batching.signals.rivals.periods import periods_of
from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.rivals.ridge import RidgeOnLags
from chronoscale.batching.signals.rivals.rival import SignalRival
from chronoscale.batching.signals.standardisation import block_bounds
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

BLOCK_BYTES = 1 << 20
SMALL = 1e-3  # targets of magnitude up to here have no relative error
KEYS = ("mae", "rmse", "mape")


def signal_rivals(signal: Signal, windows: Windows) -> list[SignalRival]:
    """Return the rivals of a forecaster of a signal, fitted to its training period: those that need no period, and two for each period that
    is known or found (`periods_of`)."""
    means, periods = training_means(signal, windows), periods_of(signal, windows)
    repeated = [PeriodBefore(period) for period in periods]
    averages = [HistoricalAverage(signal, windows, periods[at::-1]) for at in range(len(periods))]
    return [LastValue(windows.window), TrainingMean(means), *repeated, *averages, RidgeOnLags(signal, windows, means)]


def score_signal_rivals(signal: Signal, windows: Windows, evaluated: range | None = None) -> list[RivalScores]:
    """Compute the errors of all rivals of a forecaster (`signal_rivals`), as `score_rivals`."""
    return score_rivals(signal, windows, signal_rivals(signal, windows), evaluated)


def score_rivals(signal: Signal, windows: Windows, rivals: Sequence[SignalRival], evaluated: range | None = None) -> list[RivalScores]:
    """Compute the errors of rivals of a forecaster: MAE, RMSE and MAPE of channel 0 by key, over all steps that the `evaluated` windows
    (None: the test windows) predict, in the units of the data, and at each of these steps. Missing readings are left out, as in a model's
    errors; scores are empty where no reading is there."""
    sums = sum_errors(signal, windows, rivals, evaluated)
    return [RivalScores(rival.name, rival.meaning, _scores(each.sum(0)), _by_step(each)) for rival, each in zip(rivals, sums, strict=True)]


def sum_errors(signal: Signal, windows: Windows, rivals: Sequence[SignalRival], evaluated: range | None = None) -> list[Float64]:
    """Sum up what each rival's errors are made of, float64 [horizon, 5] each: absolute, squared and relative errors, the number of targets,
    the number that the relative error counts. evaluated: windows, None: the test windows. Where a rival has no prediction, the sensor's
    mean over the training period stands in."""
    part = windows.test if evaluated is None else evaluated
    means, readings = training_means(signal, windows), Readings(signal)
    sums = [np.zeros((windows.horizon, 5)) for _ in rivals]
    for first, stop in block_bounds(signal, part.start, part.stop, BLOCK_BYTES):
        ends = range(first + windows.window, stop + windows.window)
        targets = readings.steps(ends.start, ends.stop + windows.horizon - 1)
        for rival, total in zip(rivals, sums, strict=True):
            predicted = rival.predict(readings, ends, windows.horizon)
            for ahead in range(windows.horizon):
                known = np.where(np.isnan(predicted[ahead]), means, predicted[ahead])
                total[ahead] += _sum_step(known, targets[ahead : ahead + len(ends)])
    return sums


def _sum_step(prediction: Float64, target: Float64) -> Float64:
    known = ~np.isnan(target)
    truth = target[known]
    error = np.abs(prediction[known] - truth)
    relative = np.abs(truth) > SMALL
    share = error[relative] / np.abs(truth[relative])
    return np.array([error.sum(), np.square(error).sum(), share.sum(), known.sum(), relative.sum()], np.float64)


def _scores(sums: Float64) -> dict[str, float]:
    return {key: float(value) for key, value in zip(KEYS, _errors(sums), strict=True)} if sums[3] else {}


def _by_step(sums: Float64) -> dict[str, list[float]]:
    """Return the errors at each predicted step by key, NaN at a step without a target; nothing where there is none at all."""
    return {key: values.tolist() for key, values in zip(KEYS, _errors(sums.T), strict=True)} if sums[:, 3].any() else {}


def _errors(sums: Float64) -> Float64:
    """Return MAE, RMSE and MAPE, [3, ...], of sums [5, ...]; NaN where there is nothing to divide by."""
    absolute, squared, relative, targets, counted = sums
    with np.errstate(invalid="ignore"):
        return np.stack([absolute / targets, np.sqrt(squared / targets), relative / counted])
