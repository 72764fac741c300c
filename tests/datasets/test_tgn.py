"""The preprocessed files of TGN and DyGLib: events, features by id, and one line for files that do not fit one another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HEADER = ",u,i,ts,label,idx\n"
EVENTS = ("0,1,4,5.0,0.0,1\n", "1,2,4,6.5,1.0,2\n", "2,1,5,8.0,0.0,3\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As TGN's script leaves it: row 0 of either table is padding, and nodes have zeros."""
    (tmp_path / "ml_wiki.csv").write_text(HEADER + "".join(EVENTS))
    np.save(tmp_path / "ml_wiki.npy", np.arange(8.0).reshape(4, 2))
    np.save(tmp_path / "ml_wiki_node.npy", np.zeros((6, 172)))
    return tmp_path


def read(folder: Path, **options: object) -> EventStream:
    events = open_dataset(folder / "ml_wiki.csv", **options)
    assert isinstance(events, EventStream)
    return events


def test_events_have_the_rows_of_their_ids(folder: Path) -> None:
    assert detect(folder / "ml_wiki.csv") == "tgn"
    events = read(folder)
    assert_array_equal(events.node_ids, [1, 2, 4, 5])
    assert_array_equal(events.src, [0, 1, 0])
    assert_array_equal(events.dst, [2, 2, 3])
    assert_array_equal(events.t, [5.0, 6.5, 8.0])
    assert_array_equal(events.labels, [0, 1, 0])
    assert_array_equal(events.features, [[2, 3], [4, 5], [6, 7]])
    assert events.node_features is None and events.name == "ml_wiki"
    assert events.account == {
        "reader": "tgn",
        "files": ["ml_wiki.csv", "ml_wiki.npy"],
        "columns": ["_row", "src", "dst", "time", "label", "id"],
        "dropped": ["column 1 (row)", "ml_wiki_node.npy, which is all zeros"],
    }


def test_features_follow_sorted_events_and_nodes_have_those_of_their_ids(folder: Path) -> None:
    (folder / "ml_wiki.csv").write_text(HEADER + EVENTS[2] + EVENTS[0] + EVENTS[1])
    np.save(folder / "ml_wiki_node.npy", np.arange(6)[:, None])
    events = read(folder, sort=True)
    assert_array_equal(events.t, [5.0, 6.5, 8.0])
    assert_array_equal(events.features, [[2, 3], [4, 5], [6, 7]])
    assert_array_equal(events.node_features, [[1], [2], [4], [5]])
    assert events.account["dropped"] == ["column 1 (row)", "2 rows of ml_wiki_node.npy, of nodes without an event"]


def test_the_events_alone_are_enough(folder: Path) -> None:
    for name in ("ml_wiki.npy", "ml_wiki_node.npy"):
        (folder / name).unlink()
    assert read(folder).features is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",idx", ",id", "ml_wiki.csv:1: expected the header ',u,i,ts,label,idx'"),
        ("0,1,4,5.0,0.0,1", "0,1,4,5.0,0.0", "ml_wiki.csv:2: expected 6 fields as in the header, found 5"),
        ("1,2,4,6.5", "1,0,4,6.5", "ml_wiki.csv:3: node id 0 is below 1"),
        ("1.0,2\n", "1.0,0\n", "ml_wiki.csv:3: event id 0 is below 1: row 0 of the features is padding"),
        ("1.0,2\n", "1.0,1\n", "ml_wiki.csv:3: event id 1 stands twice, first in line 2"),
        ("0.0,3\n", "0.0,4\n", "ml_wiki.npy: 4 rows, expected at least 5: one for each event id of ml_wiki.csv, and row 0"),
        ("1,2,4,6.5", "1,2,4,4.5", "ml_wiki.csv:3: time 4.5 is before the 5.0"),
        ("1.0,2\n", "0.5,2\n", "ml_wiki.csv:3: expected an integer label, found 0.5"),
        ("1,2,4,6.5", "1,2,9,6.5", "ml_wiki_node.npy: 6 rows, the events name node 9"),
    ],
)
def test_a_malformed_file_is_one_line_that_says_where(folder: Path, old: str, new: str, message: str) -> None:
    np.save(folder / "ml_wiki_node.npy", np.ones((6, 1)))
    file = folder / "ml_wiki.csv"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UserError) as caught:
        open_dataset(file, "tgn", strict=True)
    assert str(caught.value).startswith(f"{folder}/{message}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("ml_wiki.npy", np.ones(4), "expected numbers in 2 dimensions, found float64 [4]"),
        ("ml_wiki.npy", np.full((4, 1), np.nan), "not finite"),
        ("ml_wiki_node.npy", np.array([["x"]]), "expected numbers in 2 dimensions, found <U1 [1, 1]"),
    ],
)
def test_a_malformed_table_is_one_line(folder: Path, name: str, table: np.ndarray, message: str) -> None:
    np.save(folder / name, table)
    with pytest.raises(UserError) as caught:
        read(folder)
    assert name in str(caught.value) and message in str(caught.value) and "\n" not in str(caught.value)
