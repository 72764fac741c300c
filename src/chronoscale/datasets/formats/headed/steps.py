"""Steps of a table's readings: their times as numbers of equal steps, with gaps where steps have no reading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.datasets.arrays import Int64, Numbers
from chronoscale.datasets.formats.epoch import DAY, show_date
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.dates import MICROSECONDS
from chronoscale.datasets.formats.headed.times import Times
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.signals.calendar import Times as CalendarTimes
from chronoscale.errors import UserError

FULLNESS = 0.5  # share of the steps that have a reading, at least; times in no step at all have far less
CLOSE = 1e-6  # of a number of steps: times that are fractions need not be exact
MONDAY = 4  # days after 1970-01-01, from which chosen steps are counted, so that weeks begin with one
YEAR = 12  # months
SHORTEST_MONTH = 28  # days
PERIODS = {"s": 1, "min": 60, "h": 3600, "d": DAY, "w": 7 * DAY}  # seconds
PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)?")
NAMES = ((7 * DAY, "week"), (DAY, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of the rows of a table, int64 [M], of `count`; the `period` between two, for people and as the reader's `option` step; the time
    of each step, datetime64 [T], None where times are numbers without a date."""

    rows: Int64
    count: int
    period: str
    option: str
    times: CalendarTimes | None

    def show(self, step: int) -> str:
        """Return the time of a step for people; its number where it has none."""
        return f"step {step}" if self.times is None else str(self.times[step].astype("datetime64[s]")).replace("T", " ")

    @property
    def gaps(self) -> str:
        """Phrase on steps without a row; '' where each has one."""
        present = np.zeros(self.count, np.bool_)
        present[self.rows] = True
        lost = self.count - int(present.sum())
        begins = int(np.count_nonzero(~present[1:] & present[:-1]))
        return f"{lost:,} of {self.count:,} steps, in {begins:,} gap{'s' * (begins > 1)}, have no readings" if lost else ""


def find_steps(path: Path, column: Column, times: Times, period: str | None) -> Steps:
    """Place the times of readings in steps of equal length: the longest of which all times are multiples, or months.

    period: such as 5min, 1h, 1d, or a number (seconds where times are dates): steps are that long, and a time goes to the one in which it
    lies. Raises UserError where there is one time alone, and Question where fewer than FULLNESS of the steps would have a reading: times
    are then irregular.
    """
    distinct, places = np.unique(times.ticks, return_inverse=True)
    if len(distinct) < 2:
        sentence = f"{column.label}, which is read as the time, is {times.show(0)} in every row; readings need two times or more"
        raise UserError(f"{path}: {sentence}: say which column holds them, as in time=NAME")
    if period is not None:
        return _chosen_steps(path, times, period)
    long = times.per_second and distinct[-1] - distinct[0] >= SHORTEST_MONTH * DAY * times.per_second * (len(distinct) - 1)
    steps = _months(distinct, times, places) if long else None  # first, since some months in a row are equally long
    steps = _even_steps(distinct, times, places) if steps is None else steps
    if steps is None:
        usual = _usual_step(distinct)
        between = _name_period(usual, times.per_second)
        at = int(np.argmax(np.diff(distinct) != usual)) + 1
        odd = _name_period((distinct[at] - distinct[at - 1]).item(), times.per_second)
        text = f"the times of {column.label} are not evenly spaced: mostly {between} apart, but {_show(distinct[at], times)} is {odd} after"
        answer = Answer(
            "a reading goes to the step in which it lies, and several are averaged", {"step": suggest_step(distinct, times.per_second)}
        )
        raise Question(path, f"{text} {_show(distinct[at - 1], times)}", answer)
    return steps


def _even_steps(distinct: Numbers, times: Times, places: Int64) -> Steps | None:
    first, differences = distinct[0], np.diff(distinct)
    if distinct.dtype.kind == "i":
        length = np.gcd.reduce(differences)
        steps = (distinct - first) // length
    else:
        ratios = (distinct - first) / differences.min()
        steps = np.round(ratios).astype(np.int64)
        if (np.abs(ratios - steps) > CLOSE * np.maximum(steps, 1)).any():
            return None
        length = (distinct[-1] - first) / steps[-1]
    count = int(steps[-1]) + 1
    if len(distinct) < FULLNESS * count:
        return None
    moments = first + np.arange(count) * length
    return Steps(steps[places], count, *_both(length.item(), times.per_second), _moments(moments, times.per_second))


def _months(distinct: Numbers, times: Times, places: Int64) -> Steps | None:
    """Return steps of months, where all times are one moment of a month, its last day included; None where they are not."""
    moments = _moments(distinct, times.per_second)
    assert moments is not None
    for shift in (np.timedelta64(0, "D"), np.timedelta64(1, "D")):  # the last day of a month is the first of the next, less one
        months = (moments + shift).astype("datetime64[M]")
        numbers, inside = months.astype(np.int64), moments + shift - months.astype(moments.dtype)
        if len(np.unique(inside)) > 1 or len(np.unique(numbers)) < len(numbers):
            continue
        length = np.gcd.reduce(np.diff(numbers))
        steps = (numbers - numbers[0]) // length
        count = int(steps[-1]) + 1
        if len(distinct) >= FULLNESS * count:
            all_months = (numbers[0] + np.arange(count) * length).astype("datetime64[M]").astype(moments.dtype)
            return Steps(steps[places], count, _name_months(int(length)), f"{30 * length}d", all_months + inside[0] - shift)
    return None


def _name_months(months: int) -> str:
    count, unit = (months // YEAR, "year") if months % YEAR == 0 else (months, "month")
    return f"{count} {unit}" + ("s" if count != 1 else "")


def _chosen_steps(path: Path, times: Times, period: str) -> Steps:
    match = PERIOD.fullmatch(period.strip())
    if match is None or float(match[1]) <= 0 or (match[2] and not times.per_second):
        forms = "5min, 30s, 1h, 1d or a number of seconds" if times.per_second else "a number, as the times are"
        raise UserError(f"{path}: step={period}: expected {forms}")
    length = float(match[1]) * PERIODS[match[2] or "s"] * (times.per_second or 1)
    origin = MONDAY * DAY * times.per_second
    steps = np.floor((times.ticks - origin) / length).astype(np.int64)
    first = steps.min()
    count = int(steps.max() - first) + 1
    if count < 2:
        raise UserError(f"{path}: step={period}: all times, {times.span}, lie in one step; readings need two or more")
    moments = origin + (first + np.arange(count)) * length
    return Steps(steps - first, count, *_both(length, times.per_second), _moments(moments, times.per_second))


def _moments(ticks: Numbers, per_second: int) -> CalendarTimes | None:
    if not per_second:
        return None
    if ticks.dtype.kind == "i":
        whole, remainder = np.divmod(ticks, per_second)
        return np.asarray((whole * MICROSECONDS + remainder * MICROSECONDS // per_second).astype("datetime64[us]"))
    return np.asarray(np.round(ticks / per_second * MICROSECONDS).astype(np.int64).astype("datetime64[us]"))


def _usual_step(distinct: Numbers) -> float:
    lengths, counts = np.unique(np.diff(distinct), return_counts=True)
    return float(lengths[np.argmax(counts)])


def _show(tick: np.number[Any], times: Times) -> str:
    return show_date(int(tick), times.per_second) if times.per_second else f"{tick:,}"


def _both(length: float, per_second: int) -> tuple[str, str]:
    return _name_period(length, per_second), _spell(length, per_second)


def _name_period(length: float, per_second: int) -> str:
    if not per_second:
        return f"{length:g}"
    seconds = length / per_second
    unit, name = next(((unit, name) for unit, name in NAMES if seconds % unit == 0), (1, "second"))
    return f"{seconds / unit:g} {name}" + ("s" if seconds != unit else "")


def suggest_step(distinct: Numbers, per_second: int) -> str:
    """Return the usual length between distinct times of a table, ascending, as the option `step` says it, such as 5min."""
    return _spell(_usual_step(distinct), per_second)


def _spell(length: float, per_second: int) -> str:
    if not per_second:
        return f"{length:g}"
    seconds = length / per_second
    unit, letters = next(((unit, letters) for letters, unit in reversed(PERIODS.items()) if seconds % unit == 0), (1, "s"))
    return f"{seconds / unit:g}{letters}"
