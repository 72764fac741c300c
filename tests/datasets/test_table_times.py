"""Times of tables as people write them: read as Python's own datetime reads them, and the unit said; ambiguous ones are asked about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_files import read_events, write_table

from chronoscale.datasets.formats.epoch import find_epoch_unit
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.errors import UserError

MOMENTS = [datetime(2004, 4, 15, 5, 56, 1), datetime(2004, 4, 30, 23, 0, 59), datetime(2019, 12, 31)]
SECONDS = [moment.replace(tzinfo=UTC).timestamp() for moment in MOMENTS]
EPOCH = datetime(1970, 1, 1)


def stream_of(folder: Path, times: list[object], form: str = "csv", **options: str):
    columns = {"src": [*"abcdefghij"[: len(times)]], "dst": [*"bcdefghijk"[: len(times)]], "time": times}
    return read_events(write_table(folder / f"t.{form}", columns), **options)


FORMS: dict[str, tuple[Callable[[datetime], object], str]] = {
    "iso": (lambda m: m.isoformat(), "ISO dates"),
    "iso, blanks": (lambda m: m.isoformat(" "), "ISO dates"),
    "iso, slashes": (lambda m: m.strftime("%Y/%m/%d %H:%M:%S"), "ISO dates"),
    "iso, short": (lambda m: f"{m.year}-{m.month}-{m.day} {m.hour}:{m:%M:%S}", "ISO dates"),
    "zulu": (lambda m: m.isoformat() + "Z", "ISO dates"),
    "utc": (lambda m: m.isoformat(" ") + " UTC", "ISO dates"),
    "offset": (lambda m: (m + timedelta(hours=5, minutes=30)).isoformat() + "+05:30", "ISO dates"),
    "points": (lambda m: m.strftime("%d.%m.%Y %H:%M:%S"), "dates with the day first"),
    "day first": (lambda m: m.strftime("%d/%m/%Y %H:%M:%S"), "dates with the day first"),
    "day first, two digits": (lambda m: m.strftime("%d-%m-%y %H:%M:%S"), "dates with the day first"),
    "month first": (lambda m: f"{m.month}/{m.day}/{m.year} {m:%I:%M:%S %p}", "dates with the month first"),
    "names": (lambda m: m.strftime("%d %b %Y %H:%M:%S"), "dates with names of months"),
    "american names": (lambda m: m.strftime("%B %d, %Y %I:%M:%S %p"), "dates with names of months"),
    "twitter": (lambda m: (m - timedelta(hours=3)).strftime("%a %b %d %H:%M:%S -0300 %Y"), "dates with names of months"),
    "mail": (lambda m: (m + timedelta(hours=2)).strftime("%a, %d %b %Y %H:%M:%S +0200 (CEST)"), "dates with names of months"),
    "date": (lambda m: m.strftime("%a %b %d %H:%M:%S UTC %Y"), "dates with names of months"),
    "hours and offset": (lambda m: (m + timedelta(hours=1)).strftime("%Y%m%dT%H%M%S+01"), "ISO dates"),
    "ctime": (lambda m: m.ctime(), "dates with names of months"),
    "s": (lambda m: int((m - EPOCH).total_seconds()), "seconds since 1970"),
    "s, fractions": (lambda m: (m - EPOCH).total_seconds() + 0.0, "seconds since 1970"),
    "ms": (lambda m: int((m - EPOCH).total_seconds()) * 1000, "milliseconds since 1970"),
    "us": (lambda m: int((m - EPOCH).total_seconds()) * 10**6, "microseconds since 1970"),
    "ns": (lambda m: int((m - EPOCH).total_seconds()) * 10**9, "nanoseconds since 1970"),
    "14 digits": (lambda m: int(m.strftime("%Y%m%d%H%M%S")), "dates written as YYYYMMDDhhmmss"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_a_time(tmp_path: Path, form: str) -> None:
    write, described = FORMS[form]
    stream = stream_of(tmp_path, [write(moment) for moment in MOMENTS])
    assert stream.t.tolist() == SECONDS and stream.t.dtype == np.int64
    sentence = str(stream.account["time"])
    assert sentence.startswith(f"{described}, 2004-04-15 05:56:01 to 2019-12-31 00:00:00; kept in seconds, ")
    zoned = ("zulu", "utc", "offset", "hours and offset", "twitter", "mail", "date", "s", "s, fractions", "ms", "us", "ns")
    assert ("in UTC" in sentence) == (form in zoned)


def test_months_have_no_zone(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"time": [f"2020-{month:02}" for month in range(1, 13)], "a": [*range(12)], "b": [*range(12)]})
    assert open_dataset(path).account["time"] == "ISO dates, 2020-01-01 to 2020-12-01, a step every month; local, as they stand"


def test_days_and_minutes_as_one_number(tmp_path: Path) -> None:
    days = [datetime(2019, 1, 31), datetime(2019, 2, 1)]
    seconds = [day.replace(tzinfo=UTC).timestamp() for day in days]
    for pattern, name in (("%Y%m%d", "YYYYMMDD"), ("%Y%m%d%H%M", "YYYYMMDDhhmm")):
        numbers: list[object] = [int(day.strftime(pattern)) for day in days]
        stream = stream_of(tmp_path, numbers)
        assert stream.t.tolist() == seconds and f"dates written as {name}, 2019-01-31 to 2019-02-01" in str(stream.account["time"])
        assert stream_of(tmp_path, numbers, time_unit="none").t.tolist() == numbers
    assert stream_of(tmp_path, [20190131, 20190132]).t.tolist() == [20190131, 20190132]  # there is no such day: numbers


def test_fractions_of_seconds_are_kept(tmp_path: Path) -> None:
    start = 1_546_300_800
    stream = stream_of(tmp_path, [start * 1000 + 123, start * 1000 + 2500])
    assert stream.t.dtype == np.float64 and np.abs(stream.t - [start + 0.123, start + 2.5]).max() < 1e-6
    assert "2019-01-01 00:00:00.123 to 2019-01-01 00:00:02.500; kept in seconds with fractions, in UTC" in str(stream.account["time"])
    assert stream_of(tmp_path, [f"{start}.25", f"{start + 1}.5"]).t.tolist() == [start + 0.25, start + 1.5]
    assert stream_of(tmp_path, ["2019-01-01 00:00:00.250", "2019-01-01 00:00:01.5"]).t.tolist() == [start + 0.25, start + 1.5]


@given(
    st.lists(st.integers(315_532_800, 4_102_444_799), min_size=2, max_size=9),
    st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]),
)
def test_the_unit_is_that_of_any_years_from_1980_to_2100(seconds: list[int], unit: tuple[str, int]) -> None:
    numbers = [second * unit[1] for second in seconds]
    assert find_epoch_unit(min(numbers), max(numbers)) == unit[0]


def test_numbers_that_are_no_dates_stay_as_they_are(tmp_path: Path) -> None:
    for times in ([0, 2_678_373], [5, 7.5], [315_532_799, 400_000_000], [-5, 5]):
        stream = stream_of(tmp_path, [*times])
        assert stream.t.tolist() == times and str(stream.account["time"]).startswith("numbers as they stand, ")
    seconds: list[object] = [1_546_300_800_000, 1_546_300_801_000]
    assert stream_of(tmp_path, seconds, time_unit="us").t.tolist() == [1_546_300.8, 1_546_300.801]
    with pytest.raises(UserError, match="option time_unit: expected 's', 'ms', 'us', 'ns' or 'none'"):
        stream_of(tmp_path, seconds, time_unit="minutes")


def test_types_of_parquet(tmp_path: Path) -> None:
    for kind, zone in ((pa.timestamp("ns"), ""), (pa.timestamp("ms", "Europe/Berlin"), "in UTC"), (pa.timestamp("s"), "taken as UTC")):
        times = pa.array([int(second) for second in SECONDS], pa.timestamp("s", getattr(kind, "tz", None))).cast(kind)
        pq.write_table(pa.table({"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "time": times}), tmp_path / "t.parquet")
        stream = read_events(tmp_path / "t.parquet")
        assert stream.t.tolist() == SECONDS and zone in str(stream.account["time"])
    days = pa.array([0, 17_897], pa.date32())
    pq.write_table(pa.table({"src": pa.array(["a", "b"]).dictionary_encode(), "dst": ["b", "c"], "time": days}), tmp_path / "t.parquet")
    assert read_events(tmp_path / "t.parquet").t.tolist() == [0, 1_546_300_800]


def test_days_and_months_that_may_be_either_are_asked(tmp_path: Path) -> None:
    times: list[object] = ["03/04/2019", "04/05/2019"]
    with pytest.raises(UserError) as caught:
        stream_of(tmp_path, times)
    assert str(caught.value) == (
        f"{tmp_path / 't.csv'}: column 'time' has dates such as '03/04/2019', of which no entry shows whether the day or the month comes "
        "first; say which: day_first=true (the day), or day_first=false (the month)"
    )
    april = datetime(2019, 4, 3, tzinfo=UTC).timestamp()
    march = datetime(2019, 3, 4, tzinfo=UTC).timestamp()
    assert stream_of(tmp_path, times, day_first="true").t[0] == april
    assert stream_of(tmp_path, times, day_first="false").t[0] == march
    assert stream_of(tmp_path, ["03.04.2019", "04.05.2019"]).t[0] == april  # with points the day comes first


def test_years_of_two_digits_that_may_be_days_are_asked(tmp_path: Path) -> None:
    march = [f"21-03-{day:02} 12:00" for day in range(1, 29)]
    path = write_table(tmp_path / "t.csv", {"time": march, "a": [*range(28)], "b": [*range(28)]})
    with pytest.raises(UserError) as caught:
        open_dataset(path)
    assert str(caught.value) == (
        f"{path}: column 'time' has dates such as '21-03-01', of which no entry shows whether the year or the day comes first; say which: "
        "year_first=true (the year), or day_first=true (the day)"
    )
    assert "2021-03-01 12:00:00 to 2021-03-28 12:00:00, a step every day" in str(open_dataset(path, year_first="true").account["time"])
    assert "2001-03-21 12:00:00 to 2028-03-21 12:00:00, a step every year" in str(open_dataset(path, day_first="true").account["time"])
    with pytest.raises(UserError, match="whether the year or the day or the month comes first"):
        stream_of(tmp_path, ["12/11/05", "12/11/06", "12/11/07"])
    assert stream_of(tmp_path, ["12/31/05", "12/31/06"]).t[0] == datetime(2005, 12, 31, tzinfo=UTC).timestamp()  # 31 is no month
    with pytest.raises(UserError, match=r"year_first=true \(the year\)$"):
        stream_of(tmp_path, ["99-03-01", "99-03-02"])
    year = datetime(2021, 3, 1, tzinfo=UTC).timestamp()
    for days in (["1/3/21", "28/3/21"], ["01.03.21", "01.04.21"], ["1-3-2021", "1-3-2022"]):  # days vary, years do not, or have four digits
        assert stream_of(tmp_path, days, day_first="true").t[0] == year


def test_two_columns_that_may_be_the_time(tmp_path: Path) -> None:
    columns = {"src": ["a", "b"], "dst": ["b", "c"], "begun": ["2019-01-01", "2019-01-02"], "ended": ["2019-01-05", "2019-01-06"]}
    path = write_table(tmp_path / "t.csv", columns)
    with pytest.raises(
        UserError, match=r"columns begun, ended may be the time; say which: time=begun \(such as 2019-01-01\), or time=ended"
    ):
        open_dataset(path)
    assert read_events(path, time="ended").t[0] == datetime(2019, 1, 5, tzinfo=UTC).timestamp()
    path = write_table(tmp_path / "t.csv", {**columns, "date": ["2019-03-01", "2019-03-02"], "day": [5, 6]})
    assert read_events(path).t[0] == datetime(2019, 3, 1, tzinfo=UTC).timestamp()  # by its name, and of two names the one with dates
