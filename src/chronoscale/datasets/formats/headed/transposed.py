"""Transposed tables of readings: a row a sensor and a column a time, turned so that a row is a time."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import SENSORS, means
from chronoscale.datasets.formats.headed.dates import dates_among
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.formats.tables.lines import is_number
from chronoscale.errors import UserError

YEAR = re.compile(r"(19|20)\d\d")
TIME = "time"  # column of the times that stood in the header
MOST_ANSWERS = 4


def transpose(table: HeadedTable, sensor: str | None) -> HeadedTable:
    """Turn a table of which a row is a sensor and a column a time: the result has a column `time`, of the names that are dates (or numbers,
    where none is; years are dates), and one a sensor, named by the column `sensor`.

    Raises UserError where the header holds no times, an entry is no number, or two rows have one sensor; and Question where several columns
    may be the sensor's.
    """
    places = dates_among([column.name for column in table.columns])
    named = None if sensor is None else table.find("sensor", sensor)
    times = [table.columns[place] for place in places] or [one for one in table.columns if is_number(one.name) and one is not named]
    if len(times) < 2:
        raise UserError(f"{table.paths[0]}: transpose=true: expected dates or numbers as names of columns, found {table.names}")
    chosen = _find_sensor(table, times) if named is None else named
    names = chosen.texts("sensor").to_pylist()
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{table.paths[0]}: {chosen.label}: two rows have the sensor '{repeated}', and a row is a sensor; say sensor=NAME")
    readings = np.stack([one.numbers("reading") for one in times])
    if TIME in names:
        raise UserError(f"{table.paths[0]}: {chosen.label}: a sensor is called '{TIME}'; rename it")
    dated = [f"{one.name}-01" for one in times] if all(YEAR.fullmatch(one.name) for one in times) else [one.name for one in times]
    columns = [Column(TIME, 1, pa.array(dated, pa.large_string()), _no_row)]
    columns += [Column(name, at + 2, pa.array(readings[:, at]), _no_row) for at, name in enumerate(names)]
    return replace(table, kind=f"{table.kind}, transposed", columns=tuple(columns), rows=len(times))


def name_columns(table: HeadedTable, times: list[Column]) -> list[Column]:
    """Return the columns beside the `times` of a table that have a name for every row, each another: those that are called like sensors,
    else all."""
    others = [one for one in table.columns if one not in times and one.kind in ("integer", "text") and not one.absent.any()]
    distinct = [one for one in others if len(pc.unique(one.data)) == table.rows]
    return [one for one in distinct if means(one.name, SENSORS)] or distinct


def _find_sensor(table: HeadedTable, times: list[Column]) -> Column:
    candidates = name_columns(table, times)
    if len(candidates) == 1:
        return candidates[0]
    answers = [Answer(f"such as {one.entry(0)}", {"transpose": "true", "sensor": one.option}) for one in candidates[:MOST_ANSWERS]]
    if not answers:
        raise UserError(f"{table.paths[0]}: transpose=true: no column has a name for every row; say which it is: sensor=NAME")
    raise Question(table.paths[0], f"columns {', '.join(one.option for one in candidates[:MOST_ANSWERS])} may be the sensor", *answers)


def _no_row(row: int, problem: str) -> UserError:
    return UserError(problem)
