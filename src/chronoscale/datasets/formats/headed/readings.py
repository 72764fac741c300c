"""Readings of a table with a header: a row a reading (long), or a row a time and a column a sensor (wide), become a signal without
edges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chronoscale.datasets.arrays import Float32, Float64, Int64
from chronoscale.datasets.formats.headed.account import describe_columns
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.names import has_integer_ids, number_names
from chronoscale.datasets.formats.headed.roles import ReadingRoles
from chronoscale.datasets.formats.headed.steps import Steps, find_steps
from chronoscale.datasets.formats.headed.times import TimeOptions, Times, read_times
from chronoscale.datasets.formats.headed.wide_or_long import (
    require_a_row_a_time,
    require_filled,
    require_no_months,
    require_sensor_names,
    require_shared_times,
    require_single_readings,
    varying_columns,
)
from chronoscale.datasets.formats.sensor_ids import sensor_ids
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay, apply_signal_options
from chronoscale.datasets.node_names import Names
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.unpacking import free_memory
from chronoscale.errors import UserError

EXACT = 2**24  # integers that float32 holds


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How readings of a table are to be read: their times; `step`, the length of steps into which times are put; and the options that all
    signals have (`signal_options`)."""

    times: TimeOptions
    step: str | None
    missing: Missing
    time_of_day: TimeOfDay

    @property
    def given(self) -> list[str]:
        """Names of the options that only readings have and that are given."""
        defaults = {"step": None, "missing": None, "time_of_day": False}
        return [name for name, default in defaults.items() if getattr(self, name) != default]


def build_signal(table: HeadedTable, roles: ReadingRoles, options: ReadingOptions) -> Signal:
    """Build a signal without edges from the columns of a table that `roles` chooses: [T, N, C], T steps of equal length, N sensors in the
    order of their names (long) or of the columns (wide), C value columns (long) or 1. Steps and sensors without a reading are missing
    readings; of several in one step the mean is kept where `options.step` chooses the steps.

    Raises Question where times are irregular or what is chosen is implausible, and UserError, with its place, for an entry that is no
    number or time, and where the readings would not fit into memory.
    """
    path = table.paths[0]
    if roles.time is None and roles.sensor is not None:
        raise UserError(f"{path}: no column of {table.names} is named like a time, or holds dates; say which is one: time=NAME")
    if roles.sensor is not None and roles.time is not None and not roles.named:
        require_sensor_names(table, roles.sensor, roles.time)
    times = None if roles.time is None else read_times(path, roles.time, options.times)
    if times is not None and not roles.named:
        require_no_months(table, roles, times)
    if roles.sensor is not None and times is not None:
        values, steps, sensors, columns = _read_long(table, roles, times, options.step)
    else:
        values, steps, sensors, columns = _read_wide(table, roles, times, options.step)
    account = dict(columns)
    account["time"] = "a row is a step: no column holds times" if times is None or steps is None else _describe(times, steps)
    if steps is not None and steps.gaps:
        account["gaps"] = steps.gaps
    try:
        edges = np.empty((2, 0), np.int32)
        signal = Signal.from_readings(values, edges, None, sensors.ids, table.stem, account)
        signal = replace(signal, node_names=sensors.names)
        return apply_signal_options(signal, options.missing, options.time_of_day, None if steps is None else steps.times)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class _Sensors:
    """Sensors of a signal: integer ids, int64 [N], or else names [N]; and the number of each row's, int64 [M], of a long table."""

    ids: Int64 | None
    names: Names | None
    rows: Int64

    def show(self, number: int) -> str:
        """Return a sensor's id or name for people."""
        return str(self._known[number])

    @property
    def count(self) -> int:
        """Number of sensors."""
        return len(self._known)

    @property
    def _known(self) -> Names | Int64:
        known = self.ids if self.names is None else self.names
        assert known is not None
        return known


_Read = tuple[Float32 | Float64, Steps | None, _Sensors, dict[str, str | list[str]]]


def _read_long(table: HeadedTable, roles: ReadingRoles, times: Times, step: str | None) -> _Read:
    column, time = roles.sensor, roles.time
    assert column is not None and time is not None
    sensors = _number_sensors(column)
    steps = find_steps(table.paths[0], time, times, step)
    if not roles.named:
        require_filled(table, roles, sensors.count, steps.count)
        require_shared_times(table, roles, sensors.count, len(np.unique(times.ticks)))
    if step is None:
        require_single_readings(table, roles, steps, sensors.rows, sensors.show)
    chosen = roles.values if roles.named else varying_columns(roles.values, sensors.rows, steps.rows)
    numbers = [one.numbers("reading") for one in chosen]
    values = _empty(table, (steps.count, sensors.count, len(chosen)), numbers)
    cells = steps.rows * sensors.count + sensors.rows
    for channel, column_of_numbers in enumerate(numbers):
        values[:, :, channel] = _mean_by(cells, column_of_numbers, steps.count * sensors.count).reshape(values.shape[:2])
    named = {column.place: "sensor", time.place: "time", **{one.place: "value" for one in chosen}}
    return values, steps, sensors, describe_columns(table, "readings, long (a row is a reading)", named)


def _read_wide(table: HeadedTable, roles: ReadingRoles, times: Times | None, step: str | None) -> _Read:
    names = [one.name or str(one.place) for one in roles.values]
    name, times_named = Counter(names).most_common(1)[0]
    if times_named > 1:
        raise UserError(
            f"{table.paths[0]}: {times_named} columns have the name '{name}', and a column is a sensor; say which to read, as in values=2,3"
        )
    if times is not None and step is None:
        require_a_row_a_time(table, roles, times)
    steps = None if times is None or roles.time is None else find_steps(table.paths[0], roles.time, times, step)
    count = table.rows if steps is None else steps.count
    rows = np.arange(table.rows) if steps is None else steps.rows
    numbers = [one.numbers("reading") for one in roles.values]
    values = _empty(table, (count, len(names), 1), numbers)
    for at, column in enumerate(numbers):
        values[:, at, 0] = _mean_by(rows, column, count)
    sensors = _Sensors(*sensor_ids(names), rows)
    named = {one.place: "sensor" for one in roles.values} | ({} if roles.time is None else {roles.time.place: "time"})
    return values, steps, sensors, describe_columns(table, "readings, wide (a row is a time, a column a sensor)", named)


def _number_sensors(column: Column) -> _Sensors:
    if has_integer_ids(column):
        ids, rows = np.unique(column.integers("sensor"), return_inverse=True)
        return _Sensors(ids, None, rows)
    numbered = number_names((column,), "sensor")
    return _Sensors(None, numbered.names, numbered.columns[0])


def _empty(table: HeadedTable, shape: tuple[int, int, int], columns: Sequence[Float64]) -> Float32 | Float64:
    """Return readings [T, N, C] that are all NaN, float64 where float32 does not hold an integer of the columns. Raises UserError where
    they would not fit into memory."""
    exact = any(np.nanmax(np.abs(column), initial=0) > EXACT and not np.nan_to_num(column % 1).any() for column in columns)
    dtype = np.dtype(np.float64 if exact else np.float32)
    if (size := math.prod(shape) * dtype.itemsize) > free_memory():
        raise UserError(f"{table.paths[0]}: {shape[0]:,} steps of {shape[1]:,} sensors take {size / 1e9:.3g} GB, more than is free")
    return np.full(shape, np.nan, dtype)


def _mean_by(groups: Int64, numbers: Float64, count: int) -> Float64:
    """Return the mean of the numbers [M] of each of `count` groups, NaN where a group has none; a single number as it is."""
    there = ~np.isnan(numbers)
    counts = np.bincount(groups[there], minlength=count)
    sums = np.bincount(groups[there], numbers[there], minlength=count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts, np.float64)


def _describe(times: Times, steps: Steps) -> str:
    zone = "in UTC" if times.zoned or "since 1970" in times.form else "local, as they stand"
    return f"{times.form}, {times.span}, a step every {steps.period.removeprefix('1 ')}" + (f"; {zone}" if times.per_second else "")
