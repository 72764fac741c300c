"""Numbers that count time since 1970, recognised by their size, and dates as text for people."""

from __future__ import annotations

from typing import Literal

import numpy as np

EpochUnit = Literal["s", "ms", "us", "ns"]
EARLIEST, LATEST = 315_532_800, 4_102_444_800  # 1980 and 2100, in seconds: a number between them looks like a time
PER_SECOND: dict[EpochUnit, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
UNIT_NAMES: dict[EpochUnit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
DAY = 86_400


def find_epoch_unit(first: float, last: float) -> EpochUnit | None:
    """Find the unit in which numbers from `first` to `last` of a column count time since 1970: the one in which all lie between 1980 and
    2100; None where there is none. Those years are 13-fold apart and units a thousandfold, so that no number has two units."""
    return next((unit for unit, per in PER_SECOND.items() if EARLIEST * per <= first <= last < LATEST * per), None)


def show_date(ticks: int, per_second: int, days: bool = False) -> str:
    """Return a time as text, such as `2019-01-31 08:15:00`. ticks: since 1970, `per_second` of them a second. days: leave out the time of
    the day."""
    seconds, remainder = divmod(ticks, per_second)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    if days:
        return text[:-9]
    return text + (f".{remainder * 1000 // per_second:03d}" if remainder else "")
