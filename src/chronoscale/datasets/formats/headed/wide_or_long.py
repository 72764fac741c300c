"""Wide tables of readings that are read as long ones, and long ones as wide: what a signal cannot be is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import SENSORS, find_month, means
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.joined_sensors import PLUS, tell_apart
from chronoscale.datasets.formats.headed.names import has_integer_ids
from chronoscale.datasets.formats.headed.roles import ReadingRoles
from chronoscale.datasets.formats.headed.steps import Steps, suggest_step
from chronoscale.datasets.formats.headed.suggestions import suggest_events
from chronoscale.datasets.formats.headed.times import Times, looks_like_dates
from chronoscale.datasets.formats.question import Answer, Question

FILLED = 0.1  # share of all steps of all sensors that have a reading, at least
FEWEST_MONTHS = 3  # columns that are called so
MOST_ANSWERS = 2  # columns that may be the sensor


def require_a_row_a_time(table: HeadedTable, roles: ReadingRoles, times: Times) -> None:
    """Check that each time stands once in a wide table. Raises Question where one stands in several rows, as it does in a long table."""
    distinct, places, counts = np.unique(times.ticks, return_inverse=True, return_counts=True)
    if len(distinct) in (1, len(times.ticks)) or roles.time is None:
        return
    most = int(np.argmax(counts))
    at = times.show(int(np.argmax(places == most)))
    text = f"{at} stands in {counts[most]:,} rows of {roles.time.label}, where a row is read as a time and a column as a sensor"
    others = [one for one in roles.values if has_integer_ids(one) and not one.absent.any()]
    sensors = (one for one in others if len(roles.values) > 1 and _tells_rows_apart(one, places))
    answers = [
        Answer(f"'{one.option}' is the sensor of a row", {"sensor": one.option, "time": roles.time.option})
        for one in islice(sensors, MOST_ANSWERS)
    ]
    if len(others) > 1:
        answers.append(suggest_events(table, roles.time))
    raise Question(
        table.paths[0], text, *answers, Answer("rows of one step are averaged", {"step": suggest_step(distinct, times.per_second)})
    )


def require_no_months(table: HeadedTable, roles: ReadingRoles, times: Times) -> None:
    """Check that the columns of readings are not the months of the rows' years, of which one series is made. Raises Question where
    FEWEST_MONTHS or more are called after different months and no two times lie in one year."""
    months = {find_month(one.name): one for one in roles.values}
    named = [column for month, column in months.items() if month is not None]
    if len(named) < FEWEST_MONTHS or roles.time is None or not times.are_years:
        return
    text = f"columns such as {named[0].name}, {named[1].name} and {named[2].name} are called after months, and a row is a year"
    form = "no reader joins them to one series: bring a table with a reading a row, of the columns time and value"
    options = {} if roles.sensor is None else {"sensor": roles.sensor.option}
    options |= {"time": roles.time.option, "values": ",".join(one.option for one in roles.values)}
    meaning = "a month is a sensor, and a step a year" if roles.sensor is None else "a month is a channel, and a step a year"
    raise Question(table.paths[0], f"{text}; {form}", Answer(f"that is meant: {meaning}", options))


def _tells_rows_apart(column: Column, times: Int64) -> bool:
    distinct, numbers = np.unique(column.integers("sensor"), return_inverse=True)
    return len(distinct) < len(numbers) == len(np.unique(numbers * (times.max() + 1) + times))


def require_sensor_names(table: HeadedTable, sensor: Column, time: Column) -> None:
    """Check that the column that is read as the sensor of each row holds neither fractions nor dates. Raises Question."""
    if looks_like_dates(sensor):
        swapped = Answer("the two are swapped", {"sensor": time.option, "time": sensor.option})
        text = f"{sensor.label}, which is read as the sensor of a row, holds dates such as {sensor.entry(0)}"
    elif sensor.kind == "number" and not sensor.has_whole_fractions:
        swapped = Answer("a row is a time, a column a sensor", {"as": "readings", "time": time.option})
        numbers = sensor.numbers()
        example = sensor.entry(int(np.argmax(numbers != np.floor(numbers))))
        text = f"{sensor.label}, which is read as the sensor of a row, holds fractions such as {example}, which sensors are not called"
    else:
        return
    ids = [one for one in table.columns if one.kind in ("integer", "text") and one is not time and one is not sensor]
    raise Question(table.paths[0], text, swapped, *(Answer(f"'{one.option}' is the sensor", {"sensor": one.option}) for one in ids[:1]))


def require_shared_times(table: HeadedTable, roles: ReadingRoles, sensors: int, times: int) -> None:
    """Check that times are shared by sensors in a long table whose column of sensors is not called so: where each row has a time of its
    own, words in a column of a wide table, such as the weather of a day, are more likely. Raises Question."""
    if roles.sensor is None or roles.time is None or means(roles.sensor.name, SENSORS) or sensors < 2 or times < table.rows:
        return
    text = f"{roles.sensor.label}, which is read as the sensor of a row, has {sensors:,} entries, and no two rows have the same time"
    values = ",".join(one.option for one in roles.values)
    wide = Answer(f"a row is a time, and {roles.sensor.label} is not read", {"time": roles.time.option, "values": values})
    named = {"sensor": roles.sensor.option, "time": roles.time.option, "values": values}
    raise Question(table.paths[0], text, wide, Answer("that is meant", named))


def require_filled(table: HeadedTable, roles: ReadingRoles, sensors: int, steps: int) -> None:
    """Check that a long table has a reading of its sensors in FILLED of the steps or more. Raises Question where it has not, as where a
    column of readings is taken for the sensor."""
    share = table.rows / (sensors * steps)
    if share >= FILLED or roles.sensor is None or roles.time is None:
        return
    cells = f"{sensors:,} sensors ({roles.sensor.label}) and {steps:,} steps"
    text = f"{table.rows:,} rows for {cells}: {share:.2%} of the readings would be there"
    named = {"sensor": roles.sensor.option, "time": roles.time.option, "values": ",".join(one.option for one in roles.values)}
    wide = Answer("a row is a time, a column a sensor", {"as": "readings", "time": roles.time.option})
    raise Question(table.paths[0], text, Answer("that is meant", named), wide)


def require_single_readings(table: HeadedTable, roles: ReadingRoles, steps: Steps, sensors: Int64, show: Callable[[int], str]) -> None:
    """Check that no sensor has two readings at one time in a long table. show: names a sensor. Raises Question for the first that has."""
    at = steps.rows * (sensors.max() + 1) + sensors
    cells, counts = np.unique(at, return_counts=True)
    if len(cells) == len(at) or roles.sensor is None:
        return
    row = int(np.argmax(np.isin(at, cells[counts > 1])))
    count = int(np.count_nonzero(at == at[row]))
    text = f"sensor '{show(int(sensors[row]))}' of {roles.sensor.label} has {count:,} readings at {steps.show(int(steps.rows[row]))}"
    others = [one for one in table.columns if one.kind == "text" and one is not roles.sensor and one is not roles.time]
    dates = [one for one in others if looks_like_dates(one)]
    words = [one for one in others if one not in dates]
    answers = [Answer(f"'{one.option}' is the time", {"time": one.option}) for one in dates[:MOST_ANSWERS]]
    if together := tell_apart([one for one in words if not one.absent.any()], np.unique(at, return_inverse=True)[1]):
        named = PLUS.join(one.option for one in (roles.sensor, *together))
        answers.append(Answer(f"each has its own sensor for each {', '.join(one.option for one in together)}", {"sensor": named}))
    answers += [Answer(f"'{one.option}' is the sensor", {"sensor": one.option}) for one in words[:MOST_ANSWERS]]
    raise Question(table.paths[0], text, *answers, Answer("readings of one step are averaged", {"step": steps.option}))


def varying_columns(values: Sequence[Column], sensors: Int64, steps: Int64) -> list[Column]:
    """Return the columns of a long table that vary with time and from sensor to sensor, as readings do; a sensor's place is one for all
    times, a year one for all sensors. All of them, where none does."""
    varying = [one for one in values if not _is_same_within(one, sensors) and not _is_same_within(one, steps)]
    return varying or list(values)


def _is_same_within(column: Column, groups: Int64) -> bool:
    numbers = column.numbers()
    there = ~np.isnan(numbers)
    first = np.full(groups.max() + 1, np.nan)
    first[groups[there][::-1]] = numbers[there][::-1]
    return bool((first[groups[there]] == numbers[there]).all())
