"""Times of a table's column: dates, or numbers whose size says what they count, recognised for the whole column and told to the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.formats.epoch import DAY, PER_SECOND, UNIT_NAMES, find_epoch_unit, show_date
from chronoscale.datasets.formats.headed.column import EXACT, Column
from chronoscale.datasets.formats.headed.dates import MICROSECONDS, YEARS, NoDates, Undecided, read_dates
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.errors import UserError

TimeUnit = Literal["s", "ms", "us", "ns", "none"]
DIGITS = {8: ("%Y%m%d", "YYYYMMDD"), 12: ("%Y%m%d%H%M", "YYYYMMDDhhmm"), 14: ("%Y%m%d%H%M%S", "YYYYMMDDhhmmss")}
FIRST_YEAR, LAST_YEAR = 1900, 2100  # of dates that are written as one number
FIRST = {"year": {"year_first": "true"}, "day": {"day_first": "true"}, "month": {"day_first": "false"}}  # options, by what comes first
EXAMINED = 100  # distinct entries by which a column is taken for dates


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Times of the rows of a table, in their order: exact `ticks`, int64 or float64 [M], `per_second` of them a second since 1970; 0 where
    they are numbers without a date. form: how they stand in the file, for people. zoned: in UTC by a zone of their own."""

    ticks: Int64 | Float64
    per_second: int
    form: str
    zoned: bool = False

    @property
    def stored(self) -> Int64 | Float64:
        """Times as an event stream keeps them, [M]: seconds since 1970, int64 where all are whole, else float64; or the numbers as they
        stand."""
        if self.per_second <= 1:
            return self.ticks
        whole, remainder = np.divmod(self.ticks, self.per_second)
        return whole.astype(np.int64) if not remainder.any() else whole + remainder / self.per_second

    @property
    def span(self) -> str:
        """First and last of the times, for people."""
        first, last = self.ticks.min().item(), self.ticks.max().item()
        if not self.per_second:
            return f"{first:,} to {last:,}"
        day = DAY * self.per_second
        whole = len(self.ticks) < 2 or not (self.ticks % day).any()
        return " to ".join(show_date(int(tick), self.per_second, whole) for tick in (first, last))

    def show(self, row: int) -> str:
        """Return the time of a row for people."""
        tick = self.ticks[row].item()
        return show_date(int(tick), self.per_second) if self.per_second else f"{tick:,}"

    @property
    def are_years(self) -> bool:
        """Whether no two distinct times lie in one year; of numbers without a date, whether they are integers such as 1950."""
        distinct = np.unique(self.ticks)
        if not self.per_second:
            return bool(YEARS[0] <= distinct[0] <= distinct[-1] < YEARS[1] and not (distinct % 1).any())
        years = (distinct // self.per_second).astype("datetime64[s]").astype("datetime64[Y]")
        return len(np.unique(years)) == len(distinct)

    @property
    def sentence(self) -> str:
        """What became of the times, for the account of a reading."""
        if not self.per_second:
            return f"{self.form}, {self.span}"
        zone = "in UTC" if self.zoned or "since 1970" in self.form else "taken as UTC, for they have no zone"
        fractions = "" if self.stored.dtype.kind == "i" else " with fractions"
        return f"{self.form}, {self.span}; kept in seconds{fractions}, {zone}"


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """How a table's times are to be read, where its reader is told: `unit` of numbers, "none" for numbers that are no dates; whether the
    day comes first in dates such as 03/04/2019, and the year in dates such as 21-03-01."""

    unit: TimeUnit | None = None
    day_first: bool | None = None
    year_first: bool = False


def read_times(path: Path, column: Column, options: TimeOptions) -> Times:
    """Read the times of a column: dates and datetimes, ISO or localised; numbers since 1970, of which the size says the unit; dates written
    as one number (20190131); or numbers as they stand.

    options: where they say nothing, the size of numbers tells their unit, and dates what comes first. Raises Question where dates do not
    show it, and UserError, with its place, for an entry that is missing or no time.
    """
    column.require_all("time")
    if column.kind == "time":
        return _typed(column)
    if column.is_numeric:
        return _numbers(column, options.unit)
    if column.kind == "nested":
        raise UserError(f"{path}: {column.label}: expected times, found entries of the type {column.data.type}")
    encoded = pc.dictionary_encode(column.data)
    entries = np.array(encoded.dictionary.to_pylist(), object)
    places = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    try:
        dates = read_dates(entries, options.day_first, options.year_first)
    except NoDates as error:
        row = int(np.argmax(places == error.index))
        raise column.row_error(row, f"{column.label}: expected {error.expected}, found '{column.entry(row)}'") from None
    except Undecided as error:
        firsts = " or ".join(f"the {part}" for part in error.firsts)
        text = f"{column.label} has dates such as '{error}', of which no entry shows whether {firsts} comes first"
        raise Question(path, text, *(Answer(f"the {part}", FIRST[part]) for part in error.firsts)) from None
    return Times(dates.ticks[places], MICROSECONDS, dates.form, dates.zoned)


def looks_like_dates(column: Column) -> bool:
    """Return whether a column holds dates, by its type, or by its first distinct entries where it is text."""
    if column.kind != "text":
        return column.kind == "time"
    entries = pc.unique(column.data.filter(pa.array(~column.absent)).slice(0, EXAMINED))
    try:
        read_dates(np.array(entries.to_pylist(), object), day_first=None)
    except Undecided:
        return True
    except NoDates:
        return False
    return True


def _typed(column: Column) -> Times:
    data = column.data
    if not pa.types.is_timestamp(data.type):
        data = pc.cast(data, pa.timestamp("s"))
    ticks = np.asarray(pc.cast(data, pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    form = "dates" if pa.types.is_date(column.data.type) else "times"
    return Times(ticks, PER_SECOND[data.type.unit], f"{form} of the type {column.data.type}", data.type.tz is not None)


def _numbers(column: Column, unit: TimeUnit | None) -> Times:
    whole = column.kind == "integer" or (not np.mod(numbers := column.numbers("time"), 1).any() and np.abs(numbers).max() < EXACT)
    ticks = column.integers("time") if whole else column.numbers("time")
    first, last = ticks.min().item(), ticks.max().item()
    if unit is None and whole and (dates := _digits(ticks, int(first), int(last))) is not None:
        return dates
    resolution = find_epoch_unit(first, last) if unit is None else unit
    if resolution is None or resolution == "none":
        return Times(ticks, 0, "numbers as they stand")
    form = f"{UNIT_NAMES[resolution]} since 1970"
    if not whole:  # of fractions what float64 holds
        return Times(ticks / PER_SECOND[resolution], 1, form)
    return Times(ticks, PER_SECOND[resolution], form)


def _digits(ticks: Int64 | Float64, first: int, last: int) -> Times | None:
    """Return times of dates that are written as one number, such as 20190131; None where some number is no such date."""
    length = len(str(first))
    if length not in DIGITS or len(str(last)) != length:
        return None
    scale = 10 ** (length - 4)
    if not FIRST_YEAR <= first // scale <= last // scale < LAST_YEAR:
        return None
    import pandas as pd  # noqa: PLC0415 (heavy, and few tables have such dates)

    form, name = DIGITS[length]
    distinct, places = np.unique(ticks, return_inverse=True)
    dates = pd.to_datetime(pd.Series(distinct.astype(str)), format=form, errors="coerce")
    if dates.isna().any() or len(distinct) < 2:
        return None
    return Times(dates.to_numpy("datetime64[s]").astype(np.int64)[places], 1, f"dates written as {name}")
