"""Tables that may be read in two ways, and are asked about: a first row without a name, rows that are years and columns that are months."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from table_files import answered, named_events, question, read_events, read_signal

from chronoscale.datasets.formats.headed import table_file

ROWS = np.random.default_rng(3).normal(20, 5, (99, 3)).round(2)


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def write_rows(path: Path, first: str, rows: np.ndarray) -> Path:
    return write_lines(path, first, *(",".join(map(str, row)) for row in rows.tolist()))


def test_a_first_row_without_its_first_entry_is_no_header_unasked(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", ",19.91,26.72", ROWS)
    for options in ({"as": "readings"}, {}, {"time": "1"}, {"values": "2,3"}):
        doubt = question(path, **options)
        assert doubt.text == "the first line, (column 1), 19.91, 26.72, may be the names of columns, or a row without its first entry"
        assert [answer.options for answer in doubt.answers] == [{"header": "false"}, {"header": "true"}]
    whole = read_signal(path, **doubt.answers[0].options, **{"as": "readings"})
    assert_array_equal(whole.values[:, :, 0], np.vstack([[np.nan, 19.91, 26.72], ROWS]).astype(np.float32))
    named = read_signal(path, **doubt.answers[1].options, **{"as": "readings"})
    assert_array_equal(named.values[:, :, 0], ROWS.astype(np.float32))


@pytest.mark.parametrize(
    ("first", "index"),
    [
        (",7,8,9", [*range(20)]),
        (",7,8,9", [*range(1291597340, 1291597340 + 20 * 300, 300)]),
        (",7,8,9", [f"2012-03-{day:02d}" for day in range(1, 21)]),
        (",a,b,c", [5, 3, 8, *range(17)]),
        (",7,8,c", [5, 3, 8, *range(17)]),
    ],
)
def test_frames_of_pandas_have_a_header(tmp_path: Path, first: str, index: list[object]) -> None:
    rows = np.column_stack([np.array(index, object), ROWS[:20].astype(object)])
    signal = read_signal(write_rows(tmp_path / "t.csv", first, rows), **{"as": "readings"})
    assert_array_equal(signal.values[:, -3:, 0].astype(np.float32), ROWS[:20].astype(np.float32))


@pytest.mark.parametrize("index", [[0, 1, 3, 4], [3, 2, 1, 0], [0, 0, 0, 0], [0.5, 1.5, 2.5, 3.5]])
def test_a_first_column_that_counts_nothing_is_no_index(tmp_path: Path, index: list[float]) -> None:
    path = write_rows(tmp_path / "t.csv", ",7,8,9", np.column_stack([np.array(index, object), ROWS[:4].astype(object)]))
    assert "may be the names of columns, or a row without its first entry" in question(path, **{"as": "readings"}).text


def test_times_in_the_header_of_a_table_that_is_turned_are_names(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", ",0,1,2", np.column_stack([np.array([70, 50, 60, 20], object), ROWS[:4].astype(object)]))
    assert_array_equal(read_signal(path, transpose=True).values[:, :, 0].astype(np.float32), ROWS[:4].T.astype(np.float32))


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
YEARS = [*range(1950, 1960)]
FULL = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")


@pytest.mark.parametrize("year", ["YEAR", "time", "Date"])
@pytest.mark.parametrize(
    "columns",
    [MONTHS, tuple(map(str.upper, MONTHS)), FULL, (*MONTHS, "Annual"), ("Jun", "Jul.", "Sept."), ("mean", "Jan", "February", "MAR")],
)
def test_months_beside_years_are_asked_about(tmp_path: Path, columns: tuple[str, ...], year: str) -> None:
    readings = np.arange(len(YEARS) * len(columns)).reshape(len(YEARS), -1)
    entries = [f"{one}-01-01" for one in YEARS] if year == "Date" else YEARS
    path = write_rows(tmp_path / "t.csv", ",".join([year, *columns]), np.column_stack([np.array(entries, object), readings]))
    doubt = question(path)
    assert "are called after months, and a row is a year; no reader joins them to one series: bring a table with" in doubt.text
    (meant,) = doubt.answers
    assert meant.meaning == "that is meant: a month is a sensor, and a step a year"
    assert_array_equal(answered(path, doubt), readings)
    assert_array_equal(read_signal(path, values=",".join(columns[:2])).values[:, :, 0], readings[:, :2])


def test_months_of_several_places_beside_years_are_asked_about(tmp_path: Path) -> None:
    rows = [f"{place},{year},1,2,{year % 7}" for year in YEARS for place in ("a", "b")]
    path = write_lines(tmp_path / "t.csv", "station,year,Jan,Feb,Mar", *rows)
    doubt = question(path)
    assert "a month is a channel, and a step a year" in str(doubt)
    assert read_signal(path, **doubt.answers[0].options).values.shape == (10, 2, 3)


@pytest.mark.parametrize(
    ("header", "step"),
    [
        ("year,Jan,Feb,rest", 366),  # two may be anything
        ("year,Jan,January,jan.,rest", 366),  # one month
        ("year,Maria,Decatur,Junction,Ma", 366),  # other words
        ("year,J,F,Ma,A", 366),  # letters
        ("date,Jan,Feb,Mar", 1),  # days, of three people say
        ("time,Jan,Feb,Mar", 0),  # numbers of steps
    ],
)
def test_other_columns_are_no_months_of_years(tmp_path: Path, header: str, step: int) -> None:
    days = np.datetime64("1950-01-01") + step * np.arange(20)
    times = np.arange(20) if not step else days.astype("datetime64[Y]") if step > 1 else days
    width = header.count(",")
    path = write_lines(tmp_path / "t.csv", header, *(f"{time},{','.join('5' * width)}" for time in times))
    assert read_signal(path).num_nodes == width


def test_a_table_without_a_header_beside_words_is_offered_its_first_row(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.csv", "alice,1,2,3", "bob,4,5,6", "carol,7,8,9")
    doubt = question(path)
    assert doubt.text == "the names of 3 of 4 columns are numbers in even steps, '1' to '3'"
    first = doubt.answers[-1]
    assert first == ("it is the first row", {"header": "false", "src": "1", "dst": "2", "time": "3"}, None)
    events = read_events(path, **first.options)
    assert [event[2] for event in named_events(events)] == [2, 5, 8] and named_events(events)[0][:2] == ("alice", "1")


def test_a_large_table_of_aligned_columns_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"  {at:<9}{at * 2:>12} {at % 7}  " for at in range(500)]
    plain = write_lines(tmp_path / "plain.csv", "time,a,b", *(",".join(line.split()) for line in lines))
    monkeypatch.setattr(table_file, "CHUNK", 100)
    opened: list[Path] = []
    read_bytes = table_file.read_bytes
    monkeypatch.setattr(table_file, "read_bytes", lambda path: (opened.append(path), read_bytes(path))[1])
    for end in ("\n", "\r\n", "\r"):
        path = tmp_path / "t.dat"
        path.write_bytes(end.join(["time  a   b", *lines]).encode())
        assert_array_equal(read_signal(path).values, read_signal(plain).values)
    assert len(opened) == 3  # once a file


def test_a_line_with_quotes_of_aligned_columns_keeps_its_blanks(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.dat", "time  station   a", "0  x   1", '0 "b  c" 2', "1  x   3", '1 "b  c" 4')
    assert read_signal(path).node_names.tolist() == ["b  c", "x"]  # type: ignore[union-attr]
