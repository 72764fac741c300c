"""Family of a table with a header: whether its columns make events, or readings of sensors, long or wide; what is unclear is asked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import SENSORS, means, plain_words
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.joined_dates import find_parts
from chronoscale.datasets.formats.headed.roles import EventRoles, NamedColumns, ReadingRoles, find_ends, find_event_roles, find_time
from chronoscale.datasets.formats.headed.suggestions import require_header, require_times_in_rows, suggest_events, unclear_columns
from chronoscale.datasets.formats.headed.times import looks_like_dates
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.errors import UserError

Family = Literal["events", "readings"]
ROW_NUMBERS = ("", "index", "row", "unnamed: 0", "rownames", "no", "nr", "id", "obs")  # what a first column is called that counts the rows


def choose_roles(table: HeadedTable, named: NamedColumns, family: Family | None, transposed: bool | None) -> EventRoles | ReadingRoles:
    """Choose what a table's columns are: by the options that name columns or the family, else by the names in the header, and last by what
    columns hold.

    - events: two columns have names that go together as source and destination;
    - readings, long: a column is named like a sensor, or one single column is text, beside times and numbers;
    - readings, wide: all columns but the time are numbers.

    transposed: False where times do not stand in the header. Raises Question where columns are none of these, and UserError for options
    that do not go together.
    """
    of_readings = [*named.of_readings, *(["as=readings"] if family == "readings" else [])]
    of_events = [*named.of_events, *(["as=events"] if family == "events" else [])]
    if of_events and of_readings:
        raise UserError(f"{table.paths[0]}: {of_events[0]} is for events, {of_readings[0]} for readings; say one of them")
    if not of_readings:
        if (ends := find_ends(table, named)) is not None:
            return find_event_roles(table, named, ends)
        if of_events:
            text = f"no columns are named like source and destination, of {table.names}"
            raise Question(table.paths[0], text, suggest_events(table, find_time(table, named, ())))
    if transposed is None and not named.time and not named.values:
        if not of_readings and not named.sensor:
            require_header(table)
        require_times_in_rows(table)
    return _find_reading_roles(table, named, bool(of_readings))


def _find_reading_roles(table: HeadedTable, named: NamedColumns, rows_are_steps: bool) -> ReadingRoles:
    sensor = table.find("sensor", named.sensor) if named.sensor else None
    if sensor is None:
        sensor = _choose_sensor(table, [one for one in table.columns if means(one.name, SENSORS) and one.name != named.time])
    time = find_time(table, named, () if sensor is None else (sensor,))
    if named.values:
        values = tuple(table.find("values", name) for name in named.values)
        return ReadingRoles(sensor, time, values, sensor is None or bool(named.time and named.sensor))
    parts = find_parts(table)  # of a date that is not the time
    dates = [] if time is None else [one for one in table.columns if looks_like_dates(one)]
    apart = [sensor, time, *(parts if len(parts) > 1 else []), *dates]
    others = [one for one in table.columns if one not in apart and not _is_row_number(one)]
    if sensor is None and time is not None:
        sensor = _choose_sensor(table, [one for one in others if one.kind == "text" and not one.is_mostly_numbers])
    values = tuple(one for one in others if one is not sensor and (one.is_mostly_numbers or (one.kind == "empty" and sensor is None)))
    whole = sensor is not None or len(values) == len(others)
    if not values or not whole or (time is None and not rows_are_steps):
        raise unclear_columns(table, time)
    return ReadingRoles(sensor, time, values, False)


def _choose_sensor(table: HeadedTable, candidates: list[Column]) -> Column | None:
    if len(candidates) > 1:
        answers = [Answer(f"such as {column.entry(0)}", {"sensor": column.option}) for column in candidates[:4]]
        raise Question(table.paths[0], f"columns {', '.join(one.option for one in candidates)} may be the sensor", *answers)
    return candidates[0] if candidates else None


def _is_row_number(column: Column) -> bool:
    if column.place != 1 or plain_words(column.name) not in ROW_NUMBERS or column.kind != "integer" or column.absent.any():
        return False
    numbers = column.numbers()
    return bool(np.array_equal(numbers, np.arange(len(numbers)) + numbers[0]))
