"""Periods of a signal, after which readings are alike: from its calendar, else from the autocorrelation of the training period."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.signal import find_peaks

from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.batching.signals.standardisation import block_bounds
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal

DAYS = 7  # a week
SENSORS = 64  # whose autocorrelation is measured, evenly spaced
LEAST = 0.2  # autocorrelation of a period, and how far it stands out
MINUTES, LEAST_DAY = 1440, 24  # of a day, and steps from which a peak is broad
NEARLY = 0.98  # of a peak's height: what noise may take from the true period
BLOCK_BYTES = 1 << 24


class Period(NamedTuple):
    """Period of a signal: the number of steps after which readings are alike.

    again: name of the prediction that repeats the readings of one period before. average: of the mean of what a step of the period had in
    training. known: how its length is known, a clause.
    """

    steps: int
    again: str
    average: str
    known: str


def periods_of(signal: Signal, windows: Windows) -> list[Period]:
    """Return the periods of a signal that its training period holds whole, the shortest first: the day and the week where a channel of the
    calendar tells the time of day, else what the autocorrelation of the training period shows (at most two)."""
    day = steps_a_day(signal)
    if not day:
        return [_found(steps) for steps in find_periods(signal, windows)]
    clock = f"the signal's time of day has {day} steps a day"
    periods = (
        Period(day, "same time yesterday", "historical average by time of day", clock),
        Period(DAYS * day, "same time last week", "historical average by time of day and weekday", clock),
    )
    return [period for period in periods if period.steps <= windows.training_steps]


def _found(steps: int) -> Period:
    known = f"a period of {steps} steps is what the autocorrelation of the training period shows"
    return Period(steps, f"value {steps} steps before", f"historical average by step of {steps}", known)


def steps_a_day(signal: Signal) -> int:
    """Return how many steps a day has, by the first calendar channel that goes through the day in even steps; 0 where none does."""
    for channel in range(signal.num_channels - signal.calendar, signal.num_channels):
        share = np.asarray(signal.values[:, 0, channel], np.float64)
        signal.release()
        rises = np.diff(share)
        rises = rises[rises > 0]
        if not rises.size:
            continue
        day = round(1 / float(np.median(rises)))
        even = (round(share[0] * day) + np.arange(len(share))) % day / day
        if day > 1 and len(share) > day and np.abs(share - even).max() < 0.1 / day:
            return day
    return 0


def find_periods(signal: Signal, windows: Windows) -> list[int]:
    """Find periods of channel 0 in the training period, in steps, ascending: the first peak of its autocorrelation that is half as high as
    the highest, and the highest, which may be a multiple of it; [] where no peak stands out. Three periods at least lie in the training
    period.

    Of up to SENSORS sensors, the mean of their autocorrelations, each without its linear trend; missing readings are left out.
    """
    correlation = autocorrelation(_sample(signal, windows))
    steps = windows.training_steps
    height = max(LEAST, 3 / math.sqrt(steps))
    peaks, _ = find_peaks(correlation[: steps // 3 + 1], height=height, prominence=height)
    if not peaks.size:
        return []
    best = peaks[np.argmax(correlation[peaks])]
    first = peaks[correlation[peaks] >= correlation[best] / 2][0]
    return sorted({_as_a_day(int(peak), correlation) for peak in (first, best)})


def _as_a_day(peak: int, correlation: Float64) -> int:
    """Return the lag nearest a peak that divides a day or a week into whole minutes, where its autocorrelation is nearly as high; else the
    peak's."""
    high = correlation >= NEARLY * correlation[peak]
    near = [lag for lag in range(max(peak - peak // 50, 2), peak + peak // 50 + 1) if lag < len(high) and high[lag]]
    whole = [lag for lag in near if lag >= LEAST_DAY and (MINUTES % lag == 0 or (lag % DAYS == 0 and MINUTES % (lag // DAYS) == 0))]
    return min(whole, key=lambda lag: abs(lag - peak), default=peak)


def _sample(signal: Signal, windows: Windows) -> Float64:
    """Return the training period of some sensors, float64 [steps, sensors]."""
    chosen = np.unique(np.linspace(0, signal.num_nodes - 1, min(SENSORS, signal.num_nodes)).round().astype(np.int64))
    readings = Readings(signal)
    return np.concatenate(
        [readings.steps(first, stop)[:, chosen] for first, stop in block_bounds(signal, 0, windows.training_steps, BLOCK_BYTES)]
    )


def autocorrelation(x: Float64) -> Float64:
    """Return the mean autocorrelation of series [T, n] by lag, float64 [T]: of each without its linear trend, over the pairs of which both
    readings are there (NaN is missing); 0 at a lag without pairs, and everywhere where no series changes."""
    there = ~np.isnan(x)
    count = np.maximum(there.sum(0), 1)
    step = np.arange(len(x))[:, None] * there
    filled = np.where(there, x, 0)
    mean, middle = filled.sum(0) / count, step.sum(0) / count
    away = np.where(there, np.arange(len(x))[:, None] - middle, 0)
    slope = (away * filled).sum(0) / np.maximum((away**2).sum(0), 1)
    residuals = np.where(there, x - mean - slope * away, 0)
    power = (residuals**2).sum(0) / count
    changes = power > 1e-12 * np.maximum(mean**2, 1e-300)
    products, pairs = _lagged(residuals[:, changes]), _lagged(there[:, changes].astype(np.float64)).round()
    mean_products = np.divide(products, pairs, out=np.zeros_like(products), where=pairs > 0)
    return (mean_products / power[changes]).mean(1) if changes.any() else np.zeros(len(x))


def _lagged(x: Float64) -> Float64:
    """Return the sum of x[t] x[t + lag] over t, for every lag of each column: [T, n]."""
    spectrum = np.fft.rfft(x, 2 * len(x), axis=0)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * len(x), axis=0)[: len(x)]
