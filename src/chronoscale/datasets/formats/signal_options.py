"""Options that readers of signals share: which reading means that there is none, and the time of day as a channel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from chronoscale.datasets.signals.calendar import Times, with_time_of_day, with_time_of_day_at
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

Adjacency = Annotated[str | Path | None, "file of the matrix, where it is not beside the readings under its usual name"]
Missing = Annotated[str | float | None, "the reading of channel 0 that means there is none"]
TimeOfDay = Annotated[str | bool | int, "add the share of the day as a channel: true, from the file's times, or steps a day"]


def apply_signal_options(signal: Signal, missing: Missing, time_of_day: TimeOfDay, times: Times | None = None) -> Signal:
    """Return a signal that has just been read with its times, with readings equal to `missing` marked as missing, and then, if requested,
    the time of day added as a channel: the options that all readers of signals share.

    time_of_day: true, from `times`, datetime64 [T] or None where the file has none; or steps a day, for a file without times that begins at
    midnight. Options come from a command line, so text will do. Raises UserError for another value, and for the one that the file does not
    take.
    """
    if times is not None:
        signal = replace(signal, times=times.astype("datetime64[ns]").astype(np.int64))
    if missing is not None:
        try:
            signal = signal.mark_missing(float(missing))
        except ValueError:
            raise UserError(f"missing: expected a number, got '{missing}'") from None
    choice = str(time_of_day).lower()
    if choice == "false":
        return signal
    if choice != "true" and not (choice.isdecimal() and int(choice) > 0):
        raise UserError(f"time_of_day: expected true or steps a day, got '{time_of_day}'")
    if times is not None and choice == "true":
        return with_time_of_day_at(signal, times)
    if times is not None:
        raise UserError("time_of_day: the file has the time of every step; say true instead of steps a day")
    if choice == "true":
        raise UserError("time_of_day: the file has no local time of its steps; say steps a day if it begins at midnight, such as 288")
    return with_time_of_day(signal, int(choice))
