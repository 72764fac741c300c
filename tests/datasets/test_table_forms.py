"""Tables as offices and packages keep them: dates in several columns, years in the header, sensors that several columns name, aligned
columns, archives; each against the plain table of the same readings."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from table_files import answered, named_events, question, read_events, read_signal, write_table

from chronoscale.datasets import unpacking
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.errors import UserError

PARTS = ("year", "month", "day", "hour", "minute", "second")
STEPS = (timedelta(365), timedelta(31), timedelta(1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
FORMS = ("%Y-01-01", "%Y-%m-01", "%Y-%m-%d", "%Y-%m-%d %H:00", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")
BEGIN = datetime(2015, 1, 28, 22, 58, 57)


def parts_of(moments: list[datetime], depth: int) -> dict[str, list[Any]]:
    return {part: [getattr(moment, part) for moment in moments] for part in PARTS[:depth]}


@given(count=st.integers(4, 12), depth=st.integers(1, 6), sensors=st.sampled_from([1, 3]), long=st.booleans())
def test_dates_in_several_columns_are_those_of_one(
    count: int, depth: int, sensors: int, long: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("t")
    moments = [(BEGIN if depth != 2 else BEGIN.replace(day=1)) + at * STEPS[depth - 1] for at in range(count)]
    names = ["a", "b", "c"][:sensors]
    rows = [moment for moment in moments for _ in names] if long else moments
    values: dict[str, list[Any]] = {"station": names * count, "pm": [*range(len(rows))]} if long else {"a": [at / 2 for at in range(count)]}
    one = read_signal(write_table(folder / "one.csv", {"time": [f"{moment:{FORMS[depth - 1]}}" for moment in rows], **values}))
    several = read_signal(write_table(folder / "t.csv", {**parts_of(rows, depth), **values}))
    assert_array_equal(several.values, one.values)
    assert several.account["time"] == one.account["time"]
    assert str(several.account["columns"]).count("+".join(PARTS[:depth])) == 1


def test_events_with_dates_in_several_columns(tmp_path: Path) -> None:
    moments = [BEGIN + timedelta(hours=7 * at) for at in range(5)]
    ends = {"origin": ["EWR", "LGA", "JFK", "EWR", "LGA"], "dest": ["IAH", "MIA", "IAH", "ORD", "ORD"]}
    path = write_table(tmp_path / "flights.csv", {**parts_of(moments, 4), **ends})
    expected = [int(moment.replace(minute=0, second=0, tzinfo=UTC).timestamp()) for moment in moments]
    assert [event[2] for event in named_events(read_events(path))] == expected
    assert [event[2] for event in named_events(read_events(path, time="1+2+3", sort=True))] == [at // 86_400 * 86_400 for at in expected]


def test_parts_of_a_date_are_left_alone_where_something_else_is_the_time(tmp_path: Path) -> None:
    moments = [BEGIN + timedelta(hours=at) for at in range(4)]
    zoned = [f"{moment:%Y-%m-%dT%H:00:00Z}" for moment in moments]
    table: dict[str, list[Any]] = {**parts_of(moments, 4), "temp": [0.5, 1.5, 2.5, 3.5]}
    path = write_table(tmp_path / "t.csv", {**table, "time_hour": zoned})
    doubt = question(path)
    assert doubt.text == "columns year+month+day+hour, time_hour may be the time"
    assert [answer.options for answer in doubt.answers] == [{"time": "year+month+day+hour"}, {"time": "time_hour"}]
    assert answered(path, doubt, 0)[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert answered(path, doubt, 1)[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]  # parts of a date are no readings
    assert read_signal(path, time="time_hour", values="temp,hour").num_nodes == 2  # but where somebody says so
    assert read_signal(write_table(path, {**table, "timestamp": zoned})).num_nodes == 1
    assert read_signal(write_table(path, table), time="year+month+day+hour", values="temp").num_nodes == 1

    few = write_table(tmp_path / "few.csv", {"year": [1, 2, 3], "month": [1, 1, 1], "a": [1.5, 2.5, 3.5]})
    assert len(question(few).answers) > 0  # such are no years
    twice = write_table(tmp_path / "twice.csv", {"year": [2001, 2002], "Year": [2001, 2002], "a": [1.5, 2.5]})
    assert question(twice).text.startswith("the columns year, Year, a do not say whether")


def test_other_dates_are_neither_sensors_nor_readings(tmp_path: Path) -> None:
    days = [f"2012-01-{day:02d}" for day in range(1, 9)]
    signal = read_signal(write_table(tmp_path / "t.csv", {"date": days, "a": [*range(8)], "checked": ["3 Feb 2012"] * 8}))
    assert signal.values[:, :, 0].tolist() == [[at] for at in range(8)]
    assert signal.account["dropped"] == ["column 'checked'"]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            {"year": [2015, 2015], "month": [12, 13], "a": [1, 2]},
            {"time": "year+month"},
            "t.csv:3: column 'month': expected the month, from 1 to 12, found '13'; if it is no part of the date, say time=year$",
        ),
        ({"y": [2015, 2015], "m": [1, 2.5], "a": [1, 2]}, {"time": "y+m"}, "t.csv:3: column 'm': expected an integer part of a date"),
        ({"y": [2015, 2015], "m": [1, ""], "a": [1, 2]}, {"time": "y+m"}, "t.csv:3: column 'm': expected a part of a date, found ''"),
        ({"y": [2015, 2015], "m": [1, 2], "a": [1, 2]}, {"time": "y+d"}, r"time=d: no such column; there are y, m, a"),
        ({"y": [2015], "m": [1]}, {"time": "y+m+m+m+m+m+m"}, "expected the columns of year, month, day, .* at most; found 7$"),
        (
            {"year": [2015], "month": [1], "day": [25], "hour": [3]},
            {"time": "month+day+hour"},
            r"t.csv: time=month+day+hour: expected the columns of year, month, day, hour, minute, second, in this order "
            "and from the first on; found 'month' in the place of the year$",
        ),
        ({"year": [2015], "month": [1], "day": [2]}, {"time": "year+day+month"}, "found 'day' in the place of the month$"),
        ({"y": [15, 16], "m": [1, 2]}, {"time": "y+m"}, "t.csv:2: column 'y': expected the year, from 1000 to 2999, found '15'$"),
        (
            {"year": [2012] * 3, "month": [1, 2, 2], "day": [31, 29, 30], "a": [1, 2, 3]},
            {},
            "t.csv:4: column 'day': expected a day that its month has, found '30'; if it is no part of the date, say time=year+month$",
        ),
        (
            {"year": [2012] * 2, "month": [1, 1], "day": [1, 1], "hour": [1200, 1300], "a": [1, 2]},
            {},
            "t.csv:2: column 'hour': expected the hour, from 0 to 24, found '1200'; if it is no part of the date, say time=year+month+day$",
        ),
    ],
)
def test_what_is_wrong_in_a_part_of_a_date_is_told(tmp_path: Path, table: dict[str, list[Any]], options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("+", r"\+")):
        open_dataset(write_table(tmp_path / "t.csv", table), **options)


def test_hours_from_1_to_24_are_those_of_a_day(tmp_path: Path) -> None:
    moments = [datetime(2012, 2, 28) + timedelta(hours=at) for at in range(72)]
    table = {**parts_of(moments, 3), "hour": [moment.hour + 1 for moment in moments], "a": [*range(72)]}
    signal = read_signal(write_table(tmp_path / "t.csv", table))
    assert signal.values[:, 0, 0].tolist() == [*range(72)]
    assert "2012-02-28 01:00:00 to 2012-03-02 00:00:00, a step every hour;" in str(signal.account["time"])


@pytest.mark.parametrize(
    ("name", "entries"),
    [("min", [9.9, 10.25, 11, 8]), ("min", [9, -3, 4, 5]), ("min", [60, 70, 71, 80]), ("mn", [0, 60, 0, 60]), ("minute", [0.5, 1, 2, 3])],
)
def test_a_column_that_cannot_be_a_part_is_a_reading(tmp_path: Path, name: str, entries: list[float]) -> None:
    moments = [BEGIN + timedelta(hours=at) for at in range(4)]
    path = write_table(tmp_path / "t.csv", {**parts_of(moments, 4), name: entries, "max": [20, 21, 22, 23]})
    signal = read_signal(path)
    assert_array_equal(signal.values[:, :, 0], np.array([entries, [20, 21, 22, 23]], np.float32).T)
    assert "a step every hour" in str(signal.account["time"])


@pytest.mark.parametrize(
    ("entries", "first", "step"),
    [
        (["1991 Jul", "1991 Aug", "1991 Sep"], "1991-07-01", "month"),
        (["May 1991", "June 1991", "July 1991"], "1991-05-01", "month"),
        (["Jul-1991", "Aug-1991", "Sep-1991"], "1991-07-01", "month"),
        (["1 May 2000", "2 May 2000", "3 June 2000"], None, ""),
        (["1970 Q1", "1970 Q2", "1970 Q3"], "1970-01-01", "3 months"),
        (["2001Q4", "2002Q1", "2002q2"], "2001-10-01", "3 months"),
        (["Q2/1999", "Q3/1999", "Q4/1999"], "1999-04-01", "3 months"),
        (["1950", "1951", "1952"], "1950-01-01", "year"),
        (["1950.0", "1955.0", "1960.0"], "1950-01-01", "5 years"),
    ],
)
def test_months_quarters_and_years(tmp_path: Path, entries: list[str], first: str | None, step: str) -> None:
    path = write_table(tmp_path / "t.csv", {"Year" if entries[0][:4] == "1950" else "Period": entries, "a": [1, 2, 3]})
    if first is None:
        assert "are not evenly spaced" in question(path).text  # which are dates all the same
        return
    signal = read_signal(path)
    assert signal.values[:, 0, 0].tolist() == [1, 2, 3]
    assert f", {first} to " in str(signal.account["time"]) and f"a step every {step};" in str(signal.account["time"])


def test_words_beside_a_year_are_no_dates(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"Town": ["Decatur 1999", "Marion 2001"], "time": [0, 1], "a": [1, 2]})
    assert "column 'Town', which is read as the sensor of a row, has 2 entries" in question(path).text


def test_words_that_describe_a_time_are_no_sensors(tmp_path: Path) -> None:
    """Of one time there is one row: rain and sun are not two sensors, of which each is silent on the other's days."""
    days = [f"2012-01-{day:02d}" for day in range(1, 21)]
    table = {"date": days, "wind": [day / 2 for day in range(20)], "max, C": [*range(20)], "weather": ["rain", "sun"] * 10}
    path = write_table(tmp_path / "t.csv", table)
    doubt = question(path)
    assert doubt.text == "column 'weather', which is read as the sensor of a row, has 2 entries, and no two rows have the same time"
    assert [answer.options for answer in doubt.answers] == [
        {"time": "date", "values": "wind,3"},
        {"sensor": "weather", "time": "date", "values": "wind,3"},
    ]
    assert_array_equal(answered(path, doubt), np.stack([table["wind"], table["max, C"]], 1))  # type: ignore[arg-type]
    assert np.isnan(answered(path, doubt, 1)).sum() == 20
    assert read_signal(write_table(path, {**table, "weather": ["rain"] * 20})).num_nodes == 1
    named = {("station" if name == "weather" else name): entries for name, entries in table.items()}
    assert read_signal(write_table(path, named)).num_nodes == 2  # stations that report by turns


def test_sensors_that_several_columns_name(tmp_path: Path) -> None:
    keys = [(place, sex, age) for place in ("Chad", "Peru") for sex in ("f", "m") for age in (0, 5)]
    rows = [(year, *key) for year in (1950, 1955, 1960) for key in keys]
    names = ("year", "place", "sex", "age")
    table: dict[str, list[Any]] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    table["group"] = [f"{age}-{age + 4}" for age in table["age"]]
    path = write_table(tmp_path / "t.csv", {**table, "value": [*range(len(rows))]})
    doubt = question(path)
    assert "sensor 'Chad' of column 'place' has 4 readings at 1950-01-01 00:00:00" in doubt.text
    assert doubt.answers[0].options == {"sensor": "place+sex+group"}
    signal = read_signal(path, **doubt.answers[0].options)
    assert signal.node_names is not None and signal.node_names.tolist() == [f"{p} / {s} / {a}-{a + 4}" for p, s, a in keys]
    assert_array_equal(signal.values[:, :, 0], np.arange(24).reshape(3, 8))
    assert read_signal(path, sensor="2+sex+age").num_nodes == 8
    with pytest.raises(UserError, match=r"sensor=kind: no such column; there are year, place"):
        open_dataset(path, sensor="place+kind")
    plus = write_table(tmp_path / "plus.csv", {"a+b": ["x", "y"] * 2, "time": [0, 0, 1, 1], "v": [1, 2, 3, 4]})
    assert read_signal(plus, sensor="a+b").num_nodes == 2  # a name that has a plus
    table["group"] = ["same"] * len(rows)
    undecided = question(write_table(path, {**{one: table[one] for one in ("year", "place", "group")}, "value": [*range(len(rows))]}))
    assert not any("+" in str(answer.options) for answer in undecided.answers)


def test_a_time_that_tells_two_readings_apart_is_offered(tmp_path: Path) -> None:
    """As at the end of summer time, where an hour comes twice."""
    local = [datetime(2013, 11, 3, hour) for hour in (0, 1, 1, 2)]
    table = {
        **parts_of(local, 4),
        "station": ["EWR"] * 4,
        "temp": [1, 2, 3, 4],
        "utc": [f"2013-11-03T{hour:02d}:00:00Z" for hour in range(4, 8)],
    }
    path = write_table(tmp_path / "t.csv", table)
    doubt = question(path, time="year+month+day+hour")
    assert doubt.answers[0].options == {"time": "utc"}
    assert answered(path, doubt)[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        (["1960", "1961", "1962", "1963"], "numbers in even steps, '1960' to '1963'"),
        (["0", "1", "2"], "numbers in even steps, '0' to '2'"),
        (["0.5", "1.0", "1.5"], "numbers in even steps, '0.5' to '1.5'"),
        (["Jan 1 2000", "Feb 1 2000"], "dates, 'Jan 1 2000' to 'Feb 1 2000'"),
        (["1991 Jul", "1991 Aug"], "dates, '1991 Jul' to '1991 Aug'"),
        (["2001 Q1", "2001 Q2"], "dates, '2001 Q1' to '2001 Q2'"),
    ],
)
@pytest.mark.parametrize("corner", ["", "Country"])
def test_times_in_the_header(tmp_path: Path, times: list[str], kind: str, corner: str) -> None:
    readings = np.arange(3 * len(times)).reshape(3, -1) / 2
    rows = [",".join([name, *map(str, row)]) for name, row in zip(("Aruba", "Chad", "Peru"), readings, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join([corner, *times]), *rows]) + "\n")
    doubt = question(path)
    assert doubt.text == f"the names of {len(times)} of {len(times) + 1} columns are {kind}"
    assert doubt.answers[0].options == {"transpose": "true"}
    assert_array_equal(answered(path, doubt), readings.T)
    assert ("header=false" in str(doubt)) == kind.startswith("numbers")
    assert ("1960-01-01 to 1963-01-01" in str(read_signal(path, transpose=True).account["time"])) == (times[0] == "1960")


def test_two_columns_that_may_name_rows_are_asked_with_the_rest(tmp_path: Path) -> None:
    """As the World Bank's tables: one question, not two."""
    path = tmp_path / "t.csv"
    path.write_text("Name,Code,Indicator,1960,1961,1962\nAruba,ABW,Births,4,3,2\nChad,TCD,Births,6,,6\n")
    doubt = question(path)
    assert [answer.options for answer in doubt.answers[:2]] == [{"transpose": "true", "sensor": one} for one in ("Name", "Code")]
    assert_array_equal(answered(path, doubt, 1), [[4, 6], [3, np.nan], [2, 6]])


@pytest.mark.parametrize("header", ["place,1,2,4", "place,3,2,1", "place,1,2", "place,1,1,1"])
def test_numbers_in_uneven_steps_are_no_times_in_a_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n" + "".join(f"{name},{','.join('5' * header.count(','))}\n" for name in ("a", "b")))
    assert "even steps" not in question(path).text


def test_a_first_row_of_readings_is_asked_about_as_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"2006-0{at}-01,{at},{at + 0.5},{at + 1}\n" for at in range(1, 9)))
    doubt = question(path)
    assert doubt.answers[0].options == {"header": "false", "as": "readings", "time": "1"}
    assert answered(path, doubt).tolist() == [[at, at + 0.5, at + 1] for at in range(1, 9)]


def test_aligned_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text(" YR   MON  NINO1+2   ANOM  NINO3   ANOM\n1950   1   23.11   -1.42   23.74   -1.92\n1950  10  7   -1.71  4.5   0.1\n\n")
    with pytest.raises(UserError, match=r"2 columns have the name 'ANOM', and a column is a sensor; say which to read, as in values=2,3"):
        open_dataset(path)
    signal = read_signal(path, values="3,5", step="270d")
    assert signal.values[:, :, 0].tolist() == [[np.float32(23.11), np.float32(23.74)], [7, 4.5]]
    assert signal.node_names is not None and signal.node_names.tolist() == ["NINO1+2", "NINO3"]
    path.write_text("time  a\n0   1\n1     2\n2   3  4\n")
    with pytest.raises(UserError, match=r"t\.dat:4: expected 2 fields, found 3"):
        open_dataset(path)
    path.write_text("time  a\n0   1\n1     2\n\n2   x\n")
    with pytest.raises(UserError, match=r"t\.dat:5: column 'a': expected a reading, found 'x'"):
        open_dataset(path)


TABLE = "time,a\n" + "".join(f"2019-01-01 {hour:02d}:00,{hour}\n" for hour in range(9))


def archive(path: Path, members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_a_zip_archive_of_one_file_is_that_file(tmp_path: Path) -> None:
    path = archive(tmp_path / "air.csv.zip", {"air.csv": TABLE, "__MACOSX/._air.csv": "\0"})
    archived = read_signal(path)
    assert archived.values[:, 0, 0].tolist() == [*range(9)] and archived.name == "air"
    contacts = archive(tmp_path / "t.zip", {"folder/t.txt": "1 2 10\n2 3 11\n"})
    assert named_events(read_events(contacts)) == [("1", "2", 10), ("2", "3", 11)]
    lines = archive(tmp_path / "l.zip", {"l.json": '[{"time": 0, "a": 1}, {"time": 1, "a": 2}]'})
    assert read_signal(lines).values[:, 0, 0].tolist() == [1, 2]


def test_other_archives_are_refused_by_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = archive(tmp_path / "two.zip", {"a.csv": TABLE, "b.csv": TABLE})
    with pytest.raises(UserError, match=r"two\.zip: an archive of 2 files \(a\.csv, b\.csv\); unpack it and say which"):
        open_dataset(two)
    for members in ({}, {"folder/": ""}, {"__MACOSX/._air.csv": "\0"}):
        with pytest.raises(UserError, match=r"none\.zip: an archive of no files; make it anew, or name the file itself"):
            open_dataset(archive(tmp_path / "none.zip", members))
    for content in (gzip.compress(TABLE.encode()), archive(tmp_path / "in.zip", {"a.csv": TABLE}).read_bytes()):
        with pytest.raises(UserError, match=r"again\.zip: 'a\.csv\.gz' in it is packed, too; unpack the archive"):
            open_dataset(archive(tmp_path / "again.zip", {"a.csv.gz": content}))
    book = archive(tmp_path / "b.xlsx", {"[Content_Types].xml": "<a/>", "xl/sheet.xml": "<a/>"})
    with pytest.raises(UserError, match=r"b\.xlsx: a workbook of a spreadsheet, which is not read; save the sheet as CSV"):
        open_dataset(book)
    cut = archive(tmp_path / "cut.zip", {"a.csv": TABLE})
    cut.write_bytes(cut.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"cut\.zip: truncated or damaged"):
        open_dataset(cut)
    large = archive(tmp_path / "large.zip", {"a.csv": TABLE * 100})
    monkeypatch.setattr(unpacking, "free_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"large\.zip: .* that unpack to 17\.\d kB, and 1 kB of memory are free; it was not read"):
        open_dataset(large)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("damaged", [False, True])
def test_other_methods_of_archives_are_refused(tmp_path: Path, method: int, damaged: bool) -> None:
    path = archive(tmp_path / "t.zip", {"a.csv": TABLE}, method)
    content = bytearray(path.read_bytes())
    if damaged:
        content[50:60] = bytes(10)
    path.write_bytes(content)
    sentence = rf"t\.zip: 'a\.csv' in it is packed by method {method}, where deflate \(method 8\) is expected; unpack it$"
    with pytest.raises(UserError, match=sentence):
        open_dataset(path)


def test_what_an_archive_is_refused_for_is_told_with_its_file(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.zip", {"a.csv": TABLE})
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02")
    for field, value, sentence in ((6, 99, r"t\.zip: zip file version 9\.9; unpack it$"), (8, 1, r"t\.zip: .*password.*; unpack it$")):
        changed = bytearray(content)
        changed[directory + field] = value
        if field == 8:  # which its own header repeats
            changed[6] = value
        path.write_bytes(changed)
        with pytest.raises(UserError, match=sentence):
            open_dataset(path)


def test_files_of_archives_are_closed(tmp_path: Path) -> None:
    def open_files() -> int:
        return sum(one.path.endswith(".zip") for one in psutil.Process().open_files())

    read_signal(archive(tmp_path / "one.zip", {"a.csv": TABLE}))
    refused = archive(tmp_path / "two.zip", {"a.csv": TABLE, "b.csv": TABLE})
    with pytest.raises(UserError) as caught:
        open_dataset(refused)
    assert open_files() == 0
    assert "2 files" in str(caught.value)  # which holds its frames until here
