"""Tables with a header as readings of sensors, long and wide: against dictionaries, and what is irregular or swapped is asked about."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from table_files import FORMS, read_signal, write_table

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.node_names import name_nodes
from chronoscale.errors import UserError

START = datetime(2019, 3, 1)
HOURS = [START + timedelta(hours=hour) for hour in range(6)]


def long_table(readings: dict[tuple[datetime, str], float], shuffled: bool = True) -> dict[str, list[Any]]:
    rows = [(moment.isoformat(" "), sensor, value) for (moment, sensor), value in readings.items()]
    if shuffled:
        random.Random(1).shuffle(rows)
    time, sensor, value = zip(*rows, strict=True)
    return {"time": [*time], "sensor": [*sensor], "value": [*value]}


READINGS = {(moment, sensor): 10.0 * hour + at for hour, moment in enumerate(HOURS) for at, sensor in enumerate(["b", "a", "c 1"])}
EXPECTED = [[10.0 * hour + 1, 10.0 * hour, 10.0 * hour + 2] for hour in range(6)]  # of a, b, c 1


@pytest.mark.parametrize("form", [*FORMS, "csv.gz", "parquet.gz"])
def test_long_and_wide_tables_are_the_same_signal(tmp_path: Path, form: str) -> None:
    long = read_signal(write_table(tmp_path / f"long.{form}", long_table(READINGS)))
    wide: dict[str, list[Any]] = {"time": [moment.isoformat() for moment in HOURS]}
    wide |= {sensor: [READINGS[moment, sensor] for moment in HOURS] for sensor in ("a", "b", "c 1")}
    for signal in (long, read_signal(write_table(tmp_path / f"wide.{form}", wide))):
        assert signal.node_names is not None and signal.node_names.tolist() == ["a", "b", "c 1"] and signal.node_ids is None
        assert_array_equal(signal.values[:, :, 0], EXPECTED)
        assert signal.values.dtype == np.float32 and signal.edge_index.shape == (2, 0) and signal.missing is None
        assert "2019-03-01 00:00:00 to 2019-03-01 05:00:00, a step every hour" in str(signal.account["time"])
    store.save(tmp_path / "d", long)
    assert name_nodes(read_signal(tmp_path / "d"), [2, 0]) == ["c 1", "a"]


@given(data=st.data())
def test_any_readings_come_back_with_gaps_as_missing(data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    step = timedelta(seconds=data.draw(st.sampled_from([1, 7, 300, 3600, 86_400, 604_800])))
    moments = [START + k * step for k in range(data.draw(st.integers(4, 9)))]
    sensors = [7, 30, 100][: data.draw(st.integers(1, 3))]
    cells = [(moment, sensor) for moment in moments for sensor in sensors]
    left_out = data.draw(st.sets(st.sampled_from(cells[1:-1]), max_size=len(cells) // 4))
    readings = {cell: data.draw(st.integers(-50, 50)) / 2 for cell in cells if cell not in left_out}
    times = sorted({moment for moment, _ in readings})
    distances = {(later - times[0]) // step for later in times}
    if np.gcd.reduce([*distances]) != 1 or {sensor for _, sensor in readings} != {*sensors}:
        return
    table = long_table({(moment, str(sensor)): value for (moment, sensor), value in readings.items()})
    table["sensor"] = [*map(int, table["sensor"])]
    signal = read_signal(write_table(tmp_path_factory.mktemp("t") / "t.csv", table), sensor="sensor", time="time", values="value")
    assert signal.node_ids is not None and signal.node_ids.tolist() == sensors and signal.node_names is None
    for at, moment in enumerate(times[0] + k * step for k in range(max(distances) + 1)):
        for number, sensor in enumerate(sensors):
            value = readings.get((moment, sensor))
            assert np.isnan(signal.values[at, number, 0]) if value is None else signal.values[at, number, 0] == value
    assert len(signal) == max(distances) + 1 and signal.missing_count == signal.values.size - len(readings)
    lost = len(signal) - len(times)
    assert (f"{lost} of {len(signal)} steps, in " in str(signal.account.get("gaps"))) == bool(lost)


def test_what_is_missing_in_a_field(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,a,b\n0,1,\n1,NaN,2\n2,3,n/a\n3,null,-\n")
    signal = read_signal(path)
    assert signal.missing is not None and signal.missing[:, :, 0].tolist() == [[False, True], [True, False], [False, True], [True, True]]
    path.write_text("time,a,b\n0,1,5\n1,x,2\n")
    for options in ({}, {"time": "time", "values": "a,b"}):
        with pytest.raises(UserError, match=r"t\.csv:3: column 'a': expected a reading, found 'x'"):
            open_dataset(path, **options)
    path.write_text("time,a,b\n0,1,5\n1,0,2\n")
    assert read_signal(path, missing=0).missing_count == 1


def test_points_beside_decimal_commas_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time;a;b\n0;1.000;0,5\n1;2.500;1,5\n2;999;2\n")
    with pytest.raises(UserError) as caught:
        open_dataset(path)
    assert str(caught.value) == (
        f"{path}: column 'a' has numbers such as 1.000 beside 0,5 in column 'b', and the point may stand between thousands; "
        "say which: decimal=, (it does), or decimal=both (it stands before fractions)"
    )
    assert read_signal(path, decimal=",").values[:, :, 0].tolist() == [[1000, 0.5], [2500, 1.5], [999, 2]]
    assert read_signal(path, decimal="both").values[:, :, 0].tolist() == [[1, 0.5], [2.5, 1.5], [999, 2]]
    for content, expected in {
        "1.000,5;0,5\n-2.500;1,5\n": [[1000.5, 0.5], [-2500, 1.5]],  # a comma behind the point
        "1.000.000;0,5\n2.500;1,5\n": [[1_000_000, 0.5], [2500, 1.5]],  # two points
        "1.000;0,5\n2.25;1,5\n": [[1, 0.5], [2.25, 1.5]],  # not three digits
        "1.000;5\n2.500;1\n": [[1, 5], [2.5, 1]],  # no decimal comma
    }.items():
        path.write_text("time;a;b\n" + "".join(f"{at};{line}\n" for at, line in enumerate(content.splitlines())))
        assert read_signal(path).values[:, :, 0].tolist() == expected


def test_several_channels_and_what_describes_a_sensor(tmp_path: Path) -> None:
    rows = [(hour, sensor) for hour in range(4) for sensor in range(3)]
    table = {
        "station_id": [f"s{sensor}" for _, sensor in rows],
        "latitude": [50.0 + sensor for _, sensor in rows],
        "date": [HOURS[hour].isoformat() for hour, _ in rows],
        "hour": [hour for hour, _ in rows],
        "no2": [hour * sensor + 1 for hour, sensor in rows],
        "pm10": [hour - sensor for hour, sensor in rows],
    }
    signal = read_signal(write_table(tmp_path / "t.csv", table))
    assert signal.account["columns"] == ["station_id (sensor)", "date (time)", "no2 (value)", "pm10 (value)"]
    assert signal.account["dropped"] == ["column 'latitude'", "column 'hour'"]
    assert_array_equal(signal.values[2], [[1, 2], [3, 1], [5, 0]])
    assert read_signal(write_table(tmp_path / "t.csv", table), values="pm10").num_channels == 1
    table["no2"][0] = 2**24 + 1
    assert read_signal(write_table(tmp_path / "t.csv", table)).values[0, 0, 0] == 2**24 + 1


def test_the_time_of_day_comes_from_the_times(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"time": [moment.isoformat() for moment in HOURS], "a": range(6), "b": range(6)})
    signal = read_signal(path, time_of_day="true")
    assert signal.calendar == 1
    assert_allclose(signal.values[:, 0, 1], np.arange(6) / 24, rtol=1e-6)
    numbers = write_table(tmp_path / "n.csv", {"time": range(6), "a": range(6), "b": range(6)})
    with pytest.raises(UserError, match="the file has no local time of its steps; say steps a day"):
        open_dataset(numbers, time_of_day="true")
    assert_allclose(read_signal(numbers, time_of_day="4").values[:, 1, 1], [0, 0.25, 0.5, 0.75, 0, 0.25])


@pytest.mark.parametrize("day", [1, 15, 31])
def test_months_are_steps(tmp_path: Path, day: int) -> None:
    """Also their last days, which have no number in common."""
    months = [datetime(2019 + m // 12, m % 12 + 1, 1) for m in range(14) if m != 5]
    times = [
        (m.replace(month=m.month % 12 + 1, year=m.year + m.month // 12) - timedelta(1)) if day == 31 else m.replace(day=day) for m in months
    ]
    signal = read_signal(write_table(tmp_path / "t.csv", {"time": [f"{t:%Y-%m-%d}" for t in times], "a": range(13), "b": range(13)}))
    assert len(signal) == 14 and np.isnan(signal.values[5, 0, 0]) and "a step every month" in str(signal.account["time"])
    assert signal.values[6, 0, 0] == 5


def test_uneven_times_are_asked_about_and_put_into_steps(tmp_path: Path) -> None:
    minutes = [0, 5, 10, 16, 20, 25, 31, 35]
    times = [START + timedelta(minutes=minute, seconds=3) for minute in minutes]
    path = write_table(tmp_path / "t.csv", {"time": [t.isoformat() for t in times], "a": [1, 2, 3, 4, 5, 6, 7, 8], "b": range(8)})
    # every minute: 8 of 36 steps, less than half
    with pytest.raises(UserError) as caught:
        open_dataset(path)
    assert (
        "the times of column 'time' are not evenly spaced: mostly 5 minutes apart, but 2019-03-01 00:16:03 is 6 minutes after "
        "2019-03-01 00:10:03; say which: step=5min (a reading goes to the step in which it lies, and several are averaged)"
    ) in str(caught.value)
    assert_array_equal(read_signal(path, step="5min").values[:, 0, 0], [1, 2, 3, 4, 5, 6, 7, 8])
    assert_array_equal(read_signal(path, step="15min").values[:, 0, 0], [2, 5, 7.5])  # of each quarter of an hour the mean
    assert_array_equal(read_signal(path, step="900").values, read_signal(path, step="15min").values)
    for step, message in (("5 weeks", "expected 5min, 30s"), ("0", "expected 5min"), ("1d", "all times, 2019-03-01 00:00:03 to")):
        with pytest.raises(UserError, match=f"step={step}: {message}"):
            open_dataset(path, step=step)


def test_fractions_are_even_times(tmp_path: Path) -> None:
    signal = read_signal(write_table(tmp_path / "t.csv", {"t": [0.1, 0.2, 0.3, 0.5, 0.6], "a": range(5), "b": range(5)}))
    assert len(signal) == 6 and np.isnan(signal.values[3, 0, 0]) and signal.values[4, 0, 0] == 3


def test_rows_without_times_are_steps_where_somebody_says_so(tmp_path: Path) -> None:
    """T-GCN's readings without the matrix beside them."""
    path = tmp_path / "los_speed.csv"
    path.write_text("773869,767541,767542,717447,717446\n" + "64.5,67,1,2,3\n62,68,1,2,3\n")
    with pytest.raises(UserError, match="or the format table with as=readings, where the first line names sensors"):
        open_dataset(path)
    signal = read_signal(path, **{"format": "table", "as": "readings"})
    assert signal.node_ids is not None and signal.node_ids.tolist() == [773869, 767541, 767542, 717447, 717446]
    assert signal.values[1, :2, 0].tolist() == [62, 68] and signal.account["time"] == "a row is a step: no column holds times"


def test_a_row_a_sensor_and_a_column_a_day(tmp_path: Path) -> None:
    """As Johns Hopkins' counts of cases."""
    path = tmp_path / "cases.csv"
    path.write_text("UID,Admin2,Country,Lat,1/22/20,1/23/20,1/24/20\n84001001,Autauga,US,32.5,0,1,2\n84001003,Baldwin,US,30.7,5,,7\n")
    with pytest.raises(UserError) as caught:
        open_dataset(path)
    assert "the names of 3 of 7 columns are dates, '1/22/20' to '1/24/20'; say which: transpose=true" in str(caught.value)
    with pytest.raises(UserError, match=r"columns UID, Admin2 may be the sensor; say which: transpose=true sensor=UID \(such as"):
        open_dataset(path, transpose=True)
    signal = read_signal(path, transpose=True, sensor="Admin2", time_of_day=True)
    assert signal.node_names is not None and signal.node_names.tolist() == ["Autauga", "Baldwin"]
    assert_array_equal(signal.values[:, :, 0], [[0, 5], [1, np.nan], [2, 7]])
    assert "dates with the month first, 2020-01-22 to 2020-01-24" in str(signal.account["time"])
    with pytest.raises(UserError, match="column 'Country': two rows have the sensor 'US'"):
        open_dataset(path, transpose=True, sensor="Country")
    path.write_text("sensor,0,1,2\na,1,2,3\nb,4,5,6\n")
    with pytest.raises(UserError, match=r"'0' to '2'; say which: transpose=true \(a row is a sensor, a column a time\)"):
        open_dataset(path)
    assert_array_equal(read_signal(path, transpose=True).values[:, :, 0], [[1, 4], [2, 5], [3, 6]])


def test_a_long_table_that_is_read_as_wide_is_asked_about(tmp_path: Path) -> None:
    rows = [(day, place) for day in range(1, 6) for place in (11, 12, 13)]
    table = {"day": [f"2019-01-0{d}" for d, _ in rows], "where": [p for _, p in rows], "cases": [d * p + 0.5 for d, p in rows]}
    path = write_table(tmp_path / "t.csv", table)
    with pytest.raises(UserError) as caught:
        open_dataset(path)
    assert str(caught.value) == (
        f"{path}: 2019-01-01 00:00:00 stands in 3 rows of column 'day', where a row is read as a time and a column as a sensor; say which: "
        "sensor=where time=day ('where' is the sensor of a row), or step=1d (rows of one step are averaged)"
    )
    assert_array_equal(read_signal(path, sensor="where", time="day").values[0, :, 0], [11.5, 12.5, 13.5])
    assert len(read_signal(path, step="1d")) == 5


def test_a_wide_table_that_is_read_as_long_is_asked_about(tmp_path: Path) -> None:
    table = {"time": [f"2019-01-01 {hour:02d}:00" for hour in range(20)], "a": [hour + 0.5 for hour in range(20)], "b": range(20)}
    path = write_table(tmp_path / "t.csv", table)
    with pytest.raises(UserError, match=r"column 'a', which is read as the sensor of a row, holds fractions such as 0\.5.*as=readings"):
        open_dataset(path, sensor="a")
    with pytest.raises(UserError, match=r"20 rows for 20 sensors \(column 'b'\) and 20 steps: 5\.00% of the readings would be there"):
        open_dataset(path, sensor="b")
    assert read_signal(path, sensor="b", time="time", values="a").num_nodes == 20  # that is meant
    with pytest.raises(UserError, match=r"column 'time', which is read as the sensor of a row, holds dates such as 2019-01-01 00:00"):
        open_dataset(path, sensor="time", time="b")


def test_answers_name_places_where_names_do_not_tell_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    hours = [f"2019-01-01 {hour:02d}:00" for hour in range(20)]
    path.write_text("time,time,a,a2\n" + "".join(f"{hour},{hour},1,2\n" for hour in hours))
    with pytest.raises(UserError, match=r"columns 1, 2 may be the time; say which: time=1 \(.*\), or time=2 \("):
        open_dataset(path)
    assert read_signal(path, time="1", values="a,a2").num_nodes == 2
    path.write_text("source,src,dst,src,a\n" + "a,b,c,d,1\n" * 2)
    with pytest.raises(UserError, match=r"src=2 dst=dst \(src to dst\), or src=4 dst=dst"):
        open_dataset(path, dst="dst")
    path.write_text("place,place,time,a\n" + "".join(f"b,c,{hour},1\n" for hour in hours))
    with pytest.raises(UserError, match=r"columns 1, 2 may be the sensor; say which: sensor=1 "):
        open_dataset(path)
    path.write_text('time,b,"PM2.5, x"\n' + "".join(f"{hour},{at},0.5\n" for at, hour in enumerate(hours)))
    with pytest.raises(UserError, match=r"say which: sensor=b time=time values=3 \(that is meant\)"):
        open_dataset(path, sensor="b")
    assert read_signal(path, sensor="b", time="time", values="3").num_nodes == 20


def test_two_readings_of_one_sensor_at_one_time_are_asked_about(tmp_path: Path) -> None:
    table = {"sensor": ["a", "a", "b", "a", "b"], "time": [0, 0, 0, 1, 1], "value": [1, 2, 3, 4, 5], "kind": ["x", "y", "x", "x", "x"]}
    with pytest.raises(UserError, match=r"'a' of column 'sensor' has 2 readings at step 0; .*sensor=sensor\+kind .*sensor=kind .*step=1 "):
        open_dataset(write_table(tmp_path / "t.csv", table))
    assert read_signal(tmp_path / "t.csv", step="1").values[:, :, 0].tolist() == [[1.5, 3], [4, 5]]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"time": [5, 5, 5], "a": [1, 2, 3], "b": [1, 2, 3]}, {}, "column 'time', which is read as the time, is 5 in every row"),
        ({"sensor": ["a", "b"], "value": [1, 2]}, {"as": "readings"}, "no column of sensor, value is named like a time, or holds dates"),
        ({"time": [1, 2], "a": [1, 2], "b": [1, 2]}, {"sort": True}, "sort is an option of events, and the columns are read as readings"),
        ({"time": [1, 2], "a": [1, 2], "b": ["inf", 2]}, {"values": "b", "time": "time"}, ":2: column 'b': expected a reading, found 'in"),
        ({"time": [1, 2], "a": [1, 2], " a": [1, 2]}, {}, "2 columns have the name 'a', and a column is a sensor"),
        ({"city": ["a", "b"], "place": ["c", "d"], "time": [1, 2], "x": [1, 2]}, {}, "columns city, place may be the sensor"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path: Path, columns: dict[str, list[Any]], options: dict[str, Any], message: str) -> None:
    path = write_table(tmp_path / "t.csv", columns)
    with pytest.raises(UserError) as caught:
        open_dataset(path, **options)
    assert message in str(caught.value) and str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_a_zone_is_kept_apart_from_local_times(tmp_path: Path) -> None:
    times = [datetime(2019, 3, 1, hour, tzinfo=UTC).isoformat() for hour in range(3)]
    assert "; in UTC" in str(read_signal(write_table(tmp_path / "t.csv", {"time": times, "a": [1, 2, 3], "b": [1, 2, 3]})).account["time"])


def test_sensors_in_a_header_are_ids_where_they_are_integers(tmp_path: Path) -> None:
    signal = read_signal(write_table(tmp_path / "t.csv", {"time": [1, 2], "773869": [1, 2], "7": [3, 2**24 + 1]}))
    assert signal.node_ids is not None and signal.node_ids.tolist() == [773869, 7]
    assert signal.values.dtype == np.float64 and signal.values[1, 1, 0] == 2**24 + 1
    signal = read_signal(write_table(tmp_path / "t.csv", {"time": [1, 2], "07": [1, 2], "7": [3, 4]}))
    assert signal.node_ids is None and signal.node_names is not None and signal.node_names.tolist() == ["07", "7"]


def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronoscale.datasets.formats.headed.readings.free_memory", lambda: 100)
    with pytest.raises(UserError, match=r"t\.csv: 9 steps of 5 sensors take 1\.8e-07 GB, more than is free"):
        open_dataset(write_table(tmp_path / "t.csv", {"time": range(9), **{name: range(9) for name in "abcde"}}))
