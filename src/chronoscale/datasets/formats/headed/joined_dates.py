"""Dates whose parts stand in several columns: a year, a month, a day, an hour become one column of times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import TIMES, means, plain_words
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.roles import NamedColumns
from chronoscale.errors import UserError

PARTS = {
    "year": ("year", "yr", "yyyy"),
    "month": ("month", "mon", "mo", "mm"),
    "day": ("day", "dy", "dd", "day of month"),
    "hour": ("hour", "hr", "hh"),
    "minute": ("minute", "min", "mn"),
    "second": ("second", "sec"),
}  # what columns of a part are called, in their order
FORMS = ("{}-01", "{}-{:02}", "{}-{:02}-{:02}", "{}-{:02}-{:02} {:02}:00", "{}-{:02}-{:02} {:02}:{:02}", "{}-{:02}-{:02} {:02}:{:02}:{:02}")
YEARS = (1000, 3000)  # numbers that are years
PLUS = "+"  # between names of parts, in the option `time` and in the name of the joined column


def join_dates(table: HeadedTable, named: NamedColumns) -> HeadedTable:
    """Join the columns of a year, a month, and so on down to the first part that is lacking, to one of dates such as `2013-01-01 05:00`,
    which is called `year+month+day+hour`; the option `time` names them so, too.

    A table is returned as it is where `time` names another column, another option one of the parts, or the header a time; and where what is
    called year holds no years. Raises UserError for parts that the option names and that are not there, or are no integers.
    """
    wanted = [] if named.time is None or named.time in table.header else named.time.split(PLUS)
    if len(wanted) > len(FORMS):
        raise UserError(f"{table.paths[0]}: time={named.time}: expected the columns of {', '.join(PARTS)} at most, with + between")
    if len(wanted) > 1:
        return _with_joined(table, [table.find("time", name) for name in wanted], PLUS.join(wanted))
    parts = find_parts(table)
    names = {name for part in parts for name in (part.name, str(part.place))}
    timed = any(means(column.name, TIMES) for column in table.columns if column not in parts)
    taken = named.beside_time & names or (named.time is not None and (len(parts) > 1 or named.time not in names))
    return table if not parts or timed or taken else _with_joined(table, parts, PLUS.join(part.name for part in parts))


def find_parts(table: HeadedTable) -> list[Column]:
    """Return the columns of a year, a month, and so on down to the first part of a date that is lacking; [] where none holds years."""
    parts = list[Column]()
    for words in PARTS.values():
        found = [column for column in table.columns if plain_words(column.name) in words and column.is_numeric and not column.absent.any()]
        if len(found) != 1:
            break
        parts += found
    years = parts[0].numbers() if parts else np.zeros(1)
    return parts if YEARS[0] <= years.min() <= years.max() < YEARS[1] and not (years % 1).any() else []


def _with_joined(table: HeadedTable, parts: list[Column], name: str) -> HeadedTable:
    numbers = [part.integers("part of a date").tolist() for part in parts]
    dates = pa.array([FORMS[len(parts) - 1].format(*row) for row in zip(*numbers, strict=True)], pa.large_string())
    joined = replace(parts[0], name=name, data=dates, is_unique=True)
    return replace(table, columns=tuple(joined if one is parts[0] else one for one in table.columns if one is parts[0] or one not in parts))
