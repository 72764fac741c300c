"""Calendar channels, against Python's datetime; and the option of the readers that adds one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import h5py
import numpy as np
import pytest
from dcrnn_files import VALUES, write_adjacency, write_table
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.signals import calendar
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

EDGES = np.zeros((2, 0), np.int32)
MONDAY = datetime(2024, 1, 1)


def flat(steps: int, dtype: type[np.floating] = np.float64) -> Signal:
    return Signal(np.ones((steps, 2, 1), dtype), EDGES, name="flat")


def share(time: datetime) -> float:
    return (time - time.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(days=1)


@given(st.integers(1, 60), st.sampled_from([1, 2, 24, 96, 288]), st.integers(-5000, 5000))
def test_even_steps(steps: int, per_day: int, first: int) -> None:
    times = [MONDAY + timedelta(days=1) / per_day * (first + step) for step in range(steps)]
    made = calendar.with_day_of_week(calendar.with_time_of_day(flat(steps), per_day, first), per_day, first)
    assert made.values.shape == (steps, 2, 3)
    for node in range(2):
        assert_allclose(made.values[:, node, 1], [share(time) for time in times], atol=1e-9)
        assert_array_equal(made.values[:, node, 2], [time.weekday() / 7 for time in times])


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=20).map(sorted))
def test_steps_at_times(times: list[datetime]) -> None:
    signal, stamps = flat(len(times)), np.array(times, "datetime64[us]")
    assert_allclose(calendar.with_time_of_day_at(signal, stamps).values[:, 1, 1], [share(time) for time in times], atol=1e-11)
    assert_array_equal(calendar.with_day_of_week_at(signal, stamps).values[:, 1, 1], [time.weekday() / 7 for time in times])


def test_even_steps_are_steps_at_even_times() -> None:
    stamps = np.datetime64("2024-01-01", "ns") + np.arange(3000) * np.timedelta64(5, "m")
    for dtype in (np.float32, np.float64):
        signal = flat(3000, dtype)
        for even, at in (
            (calendar.with_time_of_day, calendar.with_time_of_day_at),
            (calendar.with_day_of_week, calendar.with_day_of_week_at),
        ):
            assert even(signal, 288).values.dtype == dtype
            assert_array_equal(even(signal, 288).values, at(signal, stamps).values)


def test_the_last_moment_of_a_day_is_not_the_next_day() -> None:
    late = np.array(["2024-01-01T23:59:59.999999999"], "datetime64[ns]")
    assert calendar.with_time_of_day_at(flat(1, np.float32), late).values[0, 0, 1] < 1


def test_the_calendar_is_never_missing_and_the_readings_stay(tmp_path) -> None:
    values = np.array([[[0.0], [np.nan], [3.0]], [[5.0], [np.nan], [0.0]]], np.float32)
    signal = Signal.from_readings(values, EDGES, name="x").mark_missing(0)
    made = calendar.with_day_of_week(calendar.with_time_of_day(signal, 2), 2)
    assert_array_equal(made.values[:, :, :1], values)
    assert_array_equal(made.missing[:, :, :1], signal.missing)
    assert not made.missing[:, :, 1:].any()
    assert made.missing_count == signal.missing_count == 4
    assert made.dead_sensors.tolist() == signal.dead_sensors.tolist() == [1]  # a clock brings no sensor to life
    assert calendar.with_time_of_day(flat(3), 2).missing is None
    store.save(tmp_path / "d", made)
    mapped = calendar.with_time_of_day(store.load(tmp_path / "d"), 2)
    assert mapped.verified and mapped.num_channels == 4 and mapped.missing_count == 4


def test_times_that_do_not_fit_are_refused() -> None:
    days = np.array(["2024-01-02", "2024-01-01", "NaT"], "datetime64[D]")
    for times, message in (
        (days[:1], "expected 2, one a step"),
        (days[:2], r"times\[1\]: time falls"),
        (days[1:], r"times\[1\]: not a time"),
    ):
        with pytest.raises(UserError, match=message):
            calendar.with_time_of_day_at(flat(2), times)
        with pytest.raises(UserError, match=message):
            calendar.with_day_of_week_at(flat(2), times)
    with pytest.raises(UserError, match="steps_per_day: expected at least 1, got 0"):
        calendar.with_time_of_day(flat(2), 0)


def indexed(path, kind: object, times: np.ndarray, **attributes: str):
    """A table as pandas writes it: integers, and what they are as an attribute."""
    write_table(path)
    with h5py.File(path, "a") as file:
        del file["df/axis1"]
        file["df/axis1"] = times.astype(np.int64)
        for name, value in {"kind": kind, **attributes}.items():
            file["df/axis1"].attrs[name] = value
    return path


TIMES = np.array(["2012-03-01T23:55", "2012-03-02T00:00"], "datetime64[s]")


@pytest.mark.parametrize("kind", [np.bytes_("datetime64"), "datetime64", "datetime64[ns]", "datetime64[us]", "datetime64[s]"])
def test_dcrnn_takes_the_time_from_its_index(tmp_path, kind) -> None:
    write_adjacency(tmp_path / "adj_mx.pkl")
    unit = "us" if "us" in str(kind) else "s" if "[s]" in str(kind) else "ns"
    path = indexed(tmp_path / "x.h5", kind, TIMES.astype(f"datetime64[{unit}]"))
    assert open_dataset(path).num_channels == open_dataset(path, time_of_day="false").num_channels == 1
    for option in (True, "true"):
        signal = open_dataset(path, time_of_day=option, missing="0")
        assert_array_equal(signal.values[:, :, 0], VALUES)
        assert_allclose(signal.values[:, 2, 1], [share(time) for time in TIMES.tolist()])
        assert_array_equal(signal.missing[:, :, 0], np.isnan(VALUES) | (VALUES == 0))
        assert not signal.missing[:, :, 1].any()  # midnight's 0 is a time
    with pytest.raises(UserError, match=r"x\.h5: time_of_day: the file has the time of every step; say true"):
        open_dataset(path, time_of_day=288)
    falls = indexed(tmp_path / "falls.h5", kind, TIMES[::-1].astype(f"datetime64[{unit}]"))
    with pytest.raises(UserError, match=r"falls\.h5: times\[1\]: time falls"):
        open_dataset(falls)


def test_an_index_without_local_times_wants_steps_a_day(tmp_path) -> None:
    write_adjacency(tmp_path / "adj_mx.pkl")
    for path in (
        write_table(tmp_path / "plain.h5"),
        indexed(tmp_path / "integer.h5", "integer", np.arange(2)),
        indexed(tmp_path / "zone.h5", "datetime64", TIMES.astype("datetime64[ns]"), tz="US/Pacific"),
    ):
        with pytest.raises(UserError, match=rf"{path.name}: time_of_day: the file has no local time of its steps; say steps a day"):
            open_dataset(path, time_of_day=True)
        assert_array_equal(open_dataset(path, time_of_day="4").values[:, 0, 1], [0, 0.25])


def test_tgcn_counts_steps(tmp_path) -> None:
    (tmp_path / "los_adj.csv").write_text("1,0.5\n0,1\n")
    path = tmp_path / "los_speed.csv"
    path.write_text("773869,767541\n64.5,0\n62,68\n60,69\n")
    signal = open_dataset(path, time_of_day=2, missing=0)
    assert_array_equal(signal.values[:, 0, 1], [0, 0.5, 0])
    assert signal.missing_count == 1
    for options, message in (
        ({"time_of_day": "true"}, "no local time of its steps"),
        ({"time_of_day": "0"}, "time_of_day: expected true or steps a day, got '0'"),
        ({"time_of_day": "noon"}, "time_of_day: expected true or steps a day, got 'noon'"),
        ({"missing": "none"}, "missing: expected a number, got 'none'"),
    ):
        with pytest.raises(UserError, match=rf"los_speed\.csv: .*{message}"):
            open_dataset(path, **options)


def test_channels_of_keys_follow_the_dates() -> None:
    """A file that begins on a Wednesday at 15:00; without dates the first step is a Monday's midnight."""
    begin = datetime(2024, 1, 3, 15)
    times = [begin + timedelta(minutes=30 * step) for step in range(400)]
    plain = flat(400)
    dated = replace(plain, times=np.array(times, "datetime64[ns]").astype(np.int64))
    for signal, when in ((dated, times), (plain, [time - (begin - MONDAY) for time in times])):
        made = calendar.with_calendar(signal, 48, 48)
        assert made.calendar == 2 and made.values.shape == (400, 2, 3)
        assert_allclose(made.values[:, 0, 1], [share(time) for time in when], atol=1e-9)
        assert_array_equal(made.values[:, 0, 2], [time.weekday() / 7 for time in when])
    assert calendar.with_calendar(dated, None, None) is dated
    assert calendar.with_calendar(dated, None, 48).calendar == 1


def test_steps_a_day_that_cannot_be() -> None:
    dated = replace(flat(9), times=np.arange(9) * 1_800_000_000_000)
    for signal, keys, message in (
        (dated, (24, None), "dataset: 24 steps a day, and the times of its steps are 1800 s apart, 48 a day"),
        (dated, (None, 24), "dataset: 24 steps a day, and"),
        (flat(9), (24, 12), "dataset: time_of_day: 24 and day_of_week: 12; both are the steps of a day"),
    ):
        with pytest.raises(UserError, match=message):
            calendar.with_calendar(signal, *keys)
    weekly = replace(flat(9), times=np.arange(9) * 7 * 86_400_000_000_000)
    assert_allclose(calendar.with_calendar(weekly, 52, None).values[:, 0, 1], np.arange(9) / 52)  # a calendar of the year
