"""Calendar: the time of day and the day of the week as one more channel of a signal (stage 1 of PGT-I's Fig. 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

Times = NDArray[np.datetime64]
DAY = 86_400_000_000_000  # ns


def with_time_of_day(signal: Signal, steps_per_day: int, first_step: int = 0) -> Signal:
    """Return a signal with one more channel: the share of the day that has passed, in [0, 1), as DCRNN adds it; the same for all nodes.

    Steps are even, and the first is step `first_step` of its day. The readings are copied. The new channel is never missing. DCRNN's files
    mark a silent sensor by 0, as this channel does midnight: call `Signal.mark_missing` first. Raises UserError for less than one step a
    day.
    """
    return _with_channel(signal, _step_numbers(signal, steps_per_day, first_step) % steps_per_day / steps_per_day)


def with_day_of_week(signal: Signal, steps_per_day: int, first_step: int = 0) -> Signal:
    """Return a signal with one more channel: the day of the week / 7, in [0, 1), Monday 0; the same for all nodes, and never missing. The
    readings are copied.

    Steps are even, and the first is step `first_step` from a Monday's midnight on. DCRNN's code writes seven channels of 0 and 1 instead.
    Raises UserError for less than one step a day.
    """
    return _with_channel(signal, _step_numbers(signal, steps_per_day, first_step) // steps_per_day % 7 / 7)


def with_time_of_day_at(signal: Signal, times: Times) -> Signal:
    """Return a signal with one more channel: the share of the day that has passed, in [0, 1), at the steps' `times`, datetime64 [T] in
    local time; steps may be uneven.

    Raises UserError where `times` are not one a step, in order.
    """
    return _with_channel(signal, (require_times(signal, times) - _midnight(times)) / np.timedelta64(1, "D"))


def with_day_of_week_at(signal: Signal, times: Times) -> Signal:
    """Return a signal with one more channel: the day of the week / 7, Monday 0, at the steps' `times`, datetime64 [T] in local time. Raises
    UserError where `times` are not one a step, in order."""
    days = _midnight(require_times(signal, times)).astype(np.int64)
    return _with_channel(signal, (days + 3) % 7 / 7)  # day 0, 1970-01-01, was a Thursday


def with_calendar(signal: Signal, time_of_day: int | None, day_of_week: int | None) -> Signal:
    """Return a signal with one more channel for each of the time of day and the day of the week whose steps a day are given: by the
    signal's times where they are less than a day apart, else by numbers of steps.

    Raises UserError where two numbers of steps a day differ, or one contradicts the times.
    """
    steps_a_day = [steps for steps in (time_of_day, day_of_week) if steps is not None]
    if len(set(steps_a_day)) > 1:
        raise UserError(f"dataset: time_of_day: {time_of_day} and day_of_week: {day_of_week}; both are the steps of a day")
    times = _times_within_days(signal)
    if times is not None and steps_a_day:
        apart, steps = float(np.median(np.diff(times).astype(np.int64))), steps_a_day[0]
        if round(DAY / apart, 6) != steps:
            raise UserError(f"dataset: {steps} steps a day, and the times of its steps are {apart / 1e9:g} s apart, {DAY / apart:g} a day")
    if time_of_day is not None:
        signal = with_time_of_day(signal, time_of_day) if times is None else with_time_of_day_at(signal, times)
    if day_of_week is not None:
        signal = with_day_of_week(signal, day_of_week) if times is None else with_day_of_week_at(signal, times)
    return signal


def _times_within_days(signal: Signal) -> Times | None:
    """Return a signal's times where it has some that are less than a day apart, else None."""
    if signal.times is None or len(signal) < 2 or not 0 < np.median(np.diff(signal.times)) < DAY:
        return None
    return signal.times.astype("datetime64[ns]")


def require_times(signal: Signal, times: Times) -> Times:
    """Check that a signal's times, datetime64 [T], are one a step, with none absent and none before the one that precedes it; return them.
    Raises UserError."""
    if times.shape != (len(signal),):
        raise UserError(f"times: expected {len(signal)}, one a step, got {times.shape}")
    if np.isnat(times).any():
        raise UserError(f"times[{int(np.argmax(np.isnat(times)))}]: not a time")
    falls = times[1:] < times[:-1]
    if falls.any():
        raise UserError(f"times[{int(np.argmax(falls)) + 1}]: time falls")
    return times


def _midnight(times: Times) -> Times:
    return times.astype("datetime64[D]")


def _step_numbers(signal: Signal, steps_per_day: int, first_step: int) -> Int64:
    if steps_per_day < 1:
        raise UserError(f"steps_per_day: expected at least 1, got {steps_per_day}")
    return np.arange(first_step, first_step + len(signal), dtype=np.int64)


def _with_channel(signal: Signal, column: Float64) -> Signal:
    """Append `column` [T], in [0, 1), as a last channel in the readings' dtype; what that would round to 1 stays just below."""
    steps, nodes, channels = signal.values.shape
    unit = signal.values.dtype.type(1)
    values = np.empty((steps, nodes, channels + 1), signal.values.dtype)
    values[:, :, :channels] = signal.values
    values[:, :, channels] = np.minimum(column.astype(values.dtype), np.nextafter(unit, -unit))[:, None]
    missing = None
    if signal.missing is not None:
        missing = np.zeros(values.shape, np.bool_)
        missing[:, :, :channels] = signal.missing
    return replace(signal, values=values, missing=missing, calendar=signal.calendar + 1)
