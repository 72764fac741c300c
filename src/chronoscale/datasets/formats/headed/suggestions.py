"""Suggestions for a table whose columns do not say what they are: options that would read it, as answers to a question."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import SENSORS, TIMES, means
from chronoscale.datasets.formats.headed.dates import dates_among
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.times import looks_like_dates
from chronoscale.datasets.formats.headed.transposed import MOST_ANSWERS, name_columns
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.formats.tables.lines import is_number

FEWEST_ENDS = 2  # columns of an event beside its time
FEWEST_DATES, FEWEST_NUMBERS = 2, 3  # names of columns that are dates, or numbers, where a table has its times in its header


def unclear_columns(table: HeadedTable, time: Column | None) -> Question:
    """Return the question what the columns of a table are, where neither their names nor what they hold says it. time: the column of times,
    if one is known."""
    events, readings = suggest_events(table, time), _suggest_readings(table, time)
    ends = [table.find(role, events.options[role]) for role in ("src", "dst") if role in events.options]
    fractions = any(end.kind == "number" and not end.has_whole_fractions for end in ends)  # which nodes are not called
    answers = readings if readings and fractions else [events, *readings]
    return Question(table.paths[0], f"the columns {table.names} do not say whether they are events or readings", *answers)


def require_named_columns(table: HeadedTable) -> None:
    """Check that a first line whose first entry is empty, as pandas writes a frame, is no row that lacks an entry. Raises Question where
    all of it is numbers above numbers, and the first column does not count the rows in even steps, as a frame's index does."""
    first, *others = table.columns
    is_row = all(not column.name or is_number(column.name) for column in others) and all(column.is_numeric for column in table.columns)
    if first.name or not is_row or first.counts_rows:
        return
    text = f"the first line, {table.names}, may be the names of columns, or a row without its first entry"
    raise Question(table.paths[0], text, Answer("it is the first row", {"header": "false"}), Answer("it is a header", {"header": "true"}))


def require_header(table: HeadedTable) -> None:
    """Check that the names of a table's columns are not its first row. Raises Question where one is a date above dates, or a number above
    numbers beside columns of text."""
    names = [column.name for column in table.columns]
    if any(means(name, (*SENSORS, *TIMES)) for name in names) or _numbers_in_steps(table):
        return
    dates = dates_among(names)
    above_dates = [place for place in dates if looks_like_dates(table.columns[place])]
    above_numbers = [column for column in table.columns if is_number(column.name) and column.is_numeric]
    if not above_dates and not (above_numbers and all(column.kind == "text" for column in table.columns if not is_number(column.name))):
        return
    time = above_dates[0] if above_dates else min(2, len(table.columns) - 1)
    others = [place for place in range(len(table.columns)) if place != time]
    first = _first_row(table, time)
    if (
        above_dates
        and all(column.is_numeric for column in table.columns if column is not table.columns[time])
        and len(others) > FEWEST_ENDS
    ):
        first = Answer("it is the first row, of readings", {"header": "false", "as": "readings", "time": str(time + 1)})
    meant = Answer("it is a header, of readings", {"as": "readings"})
    raise Question(table.paths[0], f"the first line, {table.names}, does not look like the names of columns", first, meant)


def _first_row(table: HeadedTable, time: int) -> Answer:
    """Return the options that read a table without a header as events, given the index of its column of times."""
    others = [place for place in range(len(table.columns)) if place != time]
    places = {role: str(place + 1) for role, place in zip(("src", "dst", "time"), [*others[:2], time], strict=False)}
    return Answer("it is the first row", {"header": "false", **places})


def require_times_in_rows(table: HeadedTable) -> None:
    """Check that a table does not have its times in its header. Raises Question where the names of FEWEST_DATES columns or more are dates,
    or those of FEWEST_NUMBERS or more are numbers in even steps, such as years, beside a column of different words."""
    dates, numbers = dates_among(table.header), _numbers_in_steps(table)
    if len(dates) < FEWEST_DATES and not numbers:
        return
    places, kind = (dates, "dates") if len(dates) >= FEWEST_DATES else (numbers, "numbers in even steps")
    first, last = (table.header[places[at]] for at in (0, -1))
    text = f"the names of {len(places):,} of {len(table.columns):,} columns are {kind}, '{first}' to '{last}'"
    names = name_columns(table, [table.columns[place] for place in places])
    swapped = [Answer("a row is a sensor, a column a time", {"transpose": "true"})]
    if len(names) > 1:
        swapped = [
            Answer(f"a row is a sensor, called {one.entry(0)} say, a column a time", {"transpose": "true", "sensor": one.option})
            for one in names[:MOST_ANSWERS]
        ]
    sensors = Answer("a column is a sensor", {"as": "readings", "transpose": "false"})
    row = [_first_row(table, 2)] if numbers and len(dates) < FEWEST_DATES else []  # dates in it are asked about before
    raise Question(table.paths[0], text, *swapped, sensors, *row)


def _numbers_in_steps(table: HeadedTable) -> list[int]:
    """Return the indices of the columns whose names are numbers, where these are all in even steps upwards and words beside them name the
    rows; else []."""
    places = [place for place, name in enumerate(table.header) if is_number(name)]
    steps = np.diff([float(table.header[place]) for place in places])
    if len(places) < FEWEST_NUMBERS or steps[0] <= 0 or not np.allclose(steps, steps[0]):
        return []
    words = [column for column in table.columns if column.kind == "text" and not looks_like_dates(column)]
    return places if any(len(pc.unique(column.data)) == table.rows > 1 for column in words) else []


def suggest_events(table: HeadedTable, time: Column | None) -> Answer:
    """Return the options that read a table as events between what its first two columns beside the time hold."""
    others = [column for column in table.columns if column is not time and column.kind in ("integer", "text")]
    others = [*others, *(column for column in table.columns if column is not time and column not in others)]
    options = {role: column.option for role, column in zip(("src", "dst"), others, strict=False)}
    return Answer("events", options | ({} if time is None else {"time": time.option}))


def _suggest_readings(table: HeadedTable, time: Column | None) -> list[Answer]:
    numbers = [column for column in table.columns if column is not time and column.is_numeric]
    others = [column for column in table.columns if column is not time and column not in numbers]
    if len(numbers) > 1 and time is None:
        wide = [Answer("readings, a column a sensor and a row a step", {"as": "readings"})] if not others else []
        return [*wide, Answer("readings, a row a sensor and a column a step", {"transpose": "true"})]
    if not numbers or time is None:
        return []
    if not others:
        return [Answer("readings, a column a sensor", {"as": "readings", "time": time.option})]
    chosen = {"sensor": others[0].option, "time": time.option, "values": numbers[0].option}
    return [Answer("readings, a row a reading", chosen)]
