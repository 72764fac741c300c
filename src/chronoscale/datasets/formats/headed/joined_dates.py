"""Dates whose parts stand in several columns: a year, a month, a day, an hour become one column of times."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import TIMES, means, plain_words
from chronoscale.datasets.formats.headed.dates import YEARS
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.roles import NamedColumns
from chronoscale.errors import UserError


class Part(NamedTuple):
    """Part of a date: what a column of it is called, first its whole name; its first and last number; and the unit to which dates that end
    with it are written."""

    words: tuple[str, ...]
    first: int
    last: int
    unit: str

    @property
    def name(self) -> str:
        """What people call it."""
        return self.words[0]

    def holds(self, numbers: Int64 | Float64) -> NDArray[np.bool_]:
        """Return which of some numbers, [M], it may be: bool [M]."""
        return np.asarray((self.first <= numbers) & (numbers <= self.last) & (numbers % 1 == 0), np.bool_)


PARTS = (
    Part(("year", "yr", "yyyy"), YEARS[0], YEARS[1] - 1, "M"),
    Part(("month", "mon", "mo", "mm"), 1, 12, "M"),
    Part(("day", "dy", "dd", "day of month"), 1, 31, "D"),
    Part(("hour", "hr", "hh"), 0, 24, "m"),  # 24 is midnight, the next day's 0
    Part(("minute", "min", "mn"), 0, 59, "m"),
    Part(("second", "sec"), 0, 59, "s"),
)  # in their order
CLOCK = ("h", "m", "s")  # units of the parts after the day
EPOCH = 1970
PLUS = "+"  # between names of parts, in the option `time` and in the name of the joined column


def join_dates(table: HeadedTable, named: NamedColumns) -> HeadedTable:
    """Join the columns of a year, a month, and so on down to the first part that is lacking, to one of dates such as `2013-01-01 05:00`,
    which is called `year+month+day+hour`; the option `time` names them so, too.

    A table is returned as it is where `time` names another column, another option one of the parts, or the header a time; and where what is
    called year holds no years. Raises UserError for parts that the option names and that are not there, not in this order or no integers,
    and with its row for a part that its date cannot have.
    """
    wanted = [] if named.time is None or named.time in table.header else named.time.split(PLUS)
    if len(wanted) > 1:
        columns = [table.find("time", name) for name in wanted]
        _require_order(table, columns, PLUS.join(wanted))
        return _with_joined(table, columns, PLUS.join(wanted))
    parts = find_parts(table)
    names = {name for part in parts for name in (part.name, str(part.place))}
    timed = any(means(column.name, TIMES) for column in table.columns if column not in parts)
    taken = named.beside_time & names or (named.time is not None and (len(parts) > 1 or named.time not in names))
    return table if not parts or timed or taken else _with_joined(table, parts, PLUS.join(part.name for part in parts))


def find_parts(table: HeadedTable) -> list[Column]:
    """Return the columns of a year, a month, and so on down to the first part of a date that is lacking; [] where none holds years.

    A column with a part's name is one where all of its numbers may be it; integers that may not, too, where the name is the part's whole
    one, an hour of 1300 say: `min` may as well be the least of something.
    """
    columns = list[Column]()
    for part in PARTS:
        candidates = [column for column in table.columns if plain_words(column.name) in part.words and column.is_numeric]
        if len(candidates) != 1 or candidates[0].absent.any() or not _may_be(candidates[0], part):
            break
        columns += candidates
    return columns


def _may_be(column: Column, part: Part) -> bool:
    numbers = column.numbers()
    is_called_so = plain_words(column.name) == part.name and part is not PARTS[0]
    return bool(part.holds(numbers).all() or (is_called_so and not (numbers % 1).any()))


def _require_order(table: HeadedTable, columns: list[Column], option: str) -> None:
    """Check that columns that the option `time` names are a year, a month, and so on, where their names say what they are. Raises
    UserError."""
    sentence = f"{table.paths[0]}: time={option}: expected the columns of {', '.join(part.name for part in PARTS)}, in this order"
    if len(columns) > len(PARTS):
        raise UserError(f"{sentence}, at most; found {len(columns)}")
    for column, part in zip(columns, PARTS, strict=False):
        if plain_words(column.name) in {word for other in PARTS if other is not part for word in other.words}:
            raise UserError(f"{sentence} and from the first on; found '{column.name}' in the place of the {part.name}")


def _with_joined(table: HeadedTable, columns: list[Column], name: str) -> HeadedTable:
    unit = PARTS[len(columns) - 1].unit
    text = np.char.replace(_read_moments(columns).astype(f"datetime64[{unit}]").astype(np.str_), "T", " ")
    first = columns[0]
    joined = replace(first, name=name, data=pa.array(text, pa.large_string()), is_unique=True)
    return replace(table, columns=tuple(joined if one is first else one for one in table.columns if one is first or one not in columns))


def _read_moments(columns: list[Column]) -> NDArray[np.datetime64]:
    """Return the dates of rows, datetime64 [M], by the columns of their parts. Raises UserError with the row of the first that is none,
    or that its date does not have."""
    numbers = list[Int64]()
    for column, part in zip(columns, PARTS, strict=False):
        numbers.append(column.integers("part of a date"))
        _require_all(columns[: len(numbers)], part.holds(numbers[-1]), f"the {part.name}, from {part.first} to {part.last}")
    moments = np.asarray(numbers[0] - EPOCH, "datetime64[Y]").astype("datetime64[M]")
    for month in numbers[1:2]:
        moments = moments + (month - 1)
    for day in numbers[2:3]:
        days = moments.astype("datetime64[D]") + (day - 1)
        _require_all(columns[:3], days.astype("datetime64[M]") == moments, "a day that its month has")
        moments = days.astype("datetime64[s]")
    for unit, clock in zip(CLOCK, numbers[3:], strict=False):
        moments = moments + clock.astype(f"timedelta64[{unit}]")
    return moments


def _require_all(columns: list[Column], right: NDArray[np.bool_], expected: str) -> None:
    """Check that the entries of the last of some columns of parts are right, bool [M]. Raises UserError with the first row that is not, and
    the option that does without the part."""
    *before, column = columns
    if right.all():
        return
    row = int(np.argmin(right))
    way = f"; if it is no part of the date, say time={PLUS.join(one.option for one in before)}" if before else ""
    raise column.row_error(row, f"{column.label}: expected {expected}, found '{column.entry(row)}'{way}")
