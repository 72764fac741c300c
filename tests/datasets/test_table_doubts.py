"""Tables that may be read in two ways, and are asked about: a first row without a name, rows that are years and columns that are months."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from table_files import question, read_signal

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
