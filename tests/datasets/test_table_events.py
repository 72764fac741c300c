"""Tables with a header as event streams: every form of file, names of nodes, times, labels, features; and one line for what is wrong."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from table_files import FORMS, named_events, read_events, write_table

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import ChronoscaleWarning, UserError

CALLS = {
    "caller": ["Zoë", "bob", "Zoë", "007"],
    "callee": ["bob", "Zoë", "o'hara; a, b", "bob"],
    "when": ["2019-01-01T08:15:00", "2019-01-01 08:15:30", "2019-02-28", "2019-03-02T00:00:00.500"],
    "weight": [1.5, 2, 3, 4.25],
    "label": [0, 1, 1, 0],
    "comment": ["", "a\nb", "x", "y"],
}
SECONDS = [
    datetime(2019, 1, 1, 8, 15, tzinfo=UTC).timestamp(),
    datetime(2019, 1, 1, 8, 15, 30, tzinfo=UTC).timestamp(),
    datetime(2019, 2, 28, tzinfo=UTC).timestamp(),
    datetime(2019, 3, 2, tzinfo=UTC).timestamp() + 0.5,
]


@pytest.mark.parametrize("form", [*FORMS, *(f"{form}.gz" for form in FORMS)])
def test_every_form_of_file_is_the_same_stream(tmp_path: Path, form: str) -> None:
    path = write_table(tmp_path / f"calls.{form}", CALLS)
    assert detect(path) == "table"
    stream = read_events(path)
    assert named_events(stream) == [*zip(CALLS["caller"], CALLS["callee"], SECONDS, strict=True)]
    assert stream.node_names is not None and stream.node_ids is None and stream.name == "calls"
    assert stream.node_names.tolist() == ["007", "Zoë", "bob", "o'hara; a, b"] and stream.num_nodes == 4  # in the order of code points
    assert_array_equal(stream.features, [[1.5], [2], [3], [4.25]])
    assert_array_equal(stream.labels, [0, 1, 1, 0])
    assert stream.account["columns"] == ["caller (src)", "callee (dst)", "when (time)", "weight (weight)", "label (label)"]
    assert stream.account["dropped"] == ["column 'comment'"]


def test_names_go_to_disk_and_back_and_along(tmp_path: Path) -> None:
    stream = read_events(write_table(tmp_path / "calls.csv", CALLS))
    store.save(tmp_path / "stored", stream)
    stored = read_events(tmp_path / "stored")
    assert isinstance(stored.node_names, np.memmap) and stored.node_names.tolist() == ["007", "Zoë", "bob", "o'hara; a, b"]
    assert named_events(stored.span(1, 3)) == named_events(stream)[1:3]
    assert name_nodes(stored, [1, 3]) == ["Zoë", "o'hara; a, b"]
    meta = (tmp_path / "stored" / "meta.json").read_text()
    (tmp_path / "stored" / "meta.json").write_text(meta.replace('"str384"', '"str32"'))
    with pytest.raises(UserError, match=r"node_names\.npy: meta\.json promises str32 \[4\], found str384 \[4\]"):
        store.load(tmp_path / "stored")


def test_a_store_from_before_names_is_read(tmp_path: Path) -> None:
    """As 0.2 wrote it: this folder names every field that it had."""
    (tmp_path / "d").mkdir()
    for name, array in {"src": np.array([0, 1], np.int32), "dst": np.array([1, 0], np.int32), "t": np.array([3, 4])}.items():
        np.save(tmp_path / "d" / f"{name}.npy", array)
    arrays = ", ".join(
        f'"{name}": {{"dtype": "{kind}", "shape": [2]}}' for name, kind in (("src", "int32"), ("dst", "int32"), ("t", "int64"))
    )
    scalars = '{"num_nodes": 2, "name": "old", "account": {"reader": "plain", "dropped": []}}'
    (tmp_path / "d" / "meta.json").write_text(f'{{"version": 1, "kind": "events", "scalars": {scalars}, "arrays": {{{arrays}}}}}')
    stream = read_events(tmp_path / "d")
    assert stream.node_names is None and name_nodes(stream, [1]) == ["1"] and stream.t.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("header", "src", "dst", "time"),
    [
        ("src,dst,time", 0, 1, 2),
        ("time,source,target", 1, 2, 0),
        ("to,x,from,timestamp", 2, 0, 3),
        ("sender_id,receiver_id,unix_time", 0, 1, 2),
        ("FromNodeId,ToNodeId,ts", 0, 1, 2),
        ("userId,movieId,rating,timestamp", 0, 1, 3),
        ("u,v,t", 0, 1, 2),
        ("u,i,ts", 0, 1, 2),
        ("origin,destination,date", 0, 1, 2),
        ("Source Node,Destination Node,Created At", 0, 1, 2),
        ("start_station_id,end_station_id,time", 0, 1, 2),
    ],
)
def test_columns_are_found_by_their_names(tmp_path: Path, header: str, src: int, dst: int, time: int) -> None:
    rows = [["5", "7", "5", "7"], ["7", "8", "9", "9"], ["1082008561", "1082008562", "1082008570", "1082008571"]]
    fields = [rows[2]] * len(header.split(","))
    fields[src], fields[dst] = rows[0], rows[1]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *map(",".join, zip(*fields, strict=True))]) + "\n")
    stream = read_events(path, format="table")
    assert named_events(stream) == [(u, v, int(t)) for u, v, t in zip(*rows, strict=True)] or "movie" in header or ",i," in header
    assert stream.t.dtype == np.int64
    if "movie" in header or ",i," in header:  # user 7 and item 7 are two nodes
        assert stream.num_nodes == 5 and stream.src.tolist() == [0, 1, 0, 1] and stream.dst.tolist() == [2, 3, 4, 4]
        assert read_events(path, format="table", bipartite="false").num_nodes == 4
        assert "of two kinds" in str(stream.account["nodes"])


def test_options_name_columns_by_header_or_place(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"a": ["x", "y"], "3": ["p", "q"], "c": [5, 6], "d": [0.5, 1.5], "e": [7, 8]})
    for options in ({"src": "a", "dst": "3", "time": "e"}, {"src": "1", "dst": "2", "time": "5"}):
        stream = read_events(path, features="d,c", **options)
        assert named_events(stream) == [("x", "p", 7), ("y", "q", 8)]
        assert_array_equal(stream.features, [[0.5, 5], [1.5, 6]])
    assert_array_equal(read_events(path, src="a", dst="3", time="e", features="*").features, [[5, 0.5], [6, 1.5]])
    stream = read_events(path, src="1", dst="2", time="c", label="e", weight="d")
    assert_array_equal(stream.labels, [7, 8])
    assert_array_equal(stream.features, [[0.5], [1.5]])
    for options, message in (
        ({"src": "a", "dst": "zz"}, "dst=zz: no such column; there are a, 3, c, d, e, or places from 1 to 5"),
        ({"src": "a", "dst": "6"}, "dst=6: no such column"),
        ({"src": "a", "dst": "a"}, "column 'a' has two roles"),
        ({"src": "a", "dst": "3", "label": "c", "weight": "c"}, "column 'c' has two roles"),
        ({"src": "a", "sensor": "3"}, "src is for events, sensor for readings; say one of them"),
        ({"src": "a", "as": "readings"}, "src is for events, as=readings for readings"),
        ({"src": "a", "dst": "3", "step": "1h"}, "step is an option of readings, and the columns are read as events; as=readings"),
        ({"src": "a"}, "no column is named like a destination; say dst=NAME, of a, 3, c, d, e"),
        ({"as": "both"}, "option as: expected 'events' or 'readings'"),
    ):
        with pytest.raises(UserError) as caught:
            open_dataset(path, **options)
        assert message in str(caught.value)


def test_a_table_without_a_header_is_read_by_place(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("alice,bob,2019-01-01\nbob,carol,2019-01-02\n")
    with pytest.raises(UserError, match="does not look like the names of columns; say which: header=false src=1 dst=2 time=3"):
        open_dataset(path)
    stream = read_events(path, header="false", src="1", dst="2", time="3")
    assert [event[:2] for event in named_events(stream)] == [("alice", "bob"), ("bob", "carol")]


def test_labels_of_text_are_numbered_and_said(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"src": "abc", "dst": "bca", "time": [1, 2, 3], "label": ["ok", "fraud", "ok"]})
    stream = read_events(path)
    assert stream.labels is not None and stream.labels.tolist() == [1, 0, 1]
    assert stream.account["labels"] == "0 is 'fraud', 1 is 'ok'"


def test_files_of_one_stream(tmp_path: Path) -> None:
    first = write_table(tmp_path / "a.csv", {"src": ["a", "b"], "dst": ["b", "c"], "time": [1, 2]})
    second = write_table(tmp_path / "b.csv.gz", {"src": ["c", "b"], "dst": ["b", "x"], "time": [3, 4]})
    assert named_events(read_events([first, second])) == [("a", "b", 1), ("b", "c", 2), ("c", "b", 3), ("b", "x", 4)]
    second.write_bytes(gzip.compress(b"src,dst,time\nc,b,3\nb,,4\n", mtime=0))
    with pytest.raises(UserError, match=r"b\.csv\.gz:3: column 'dst': expected a node, found ''"):
        open_dataset([first, second])
    other = write_table(tmp_path / "c.csv", {"from": ["c"], "dst": ["b"], "time": [3]})
    with pytest.raises(UserError, match=r"c\.csv: the columns are from, dst, time, those of .*a\.csv are src, dst, time"):
        open_dataset([first, other])


def test_without_a_time_the_order_of_the_rows_is_the_time(tmp_path: Path) -> None:
    stream = read_events(write_table(tmp_path / "t.csv", {"src": ["a", "b"], "dst": ["b", "c"], "note": ["x", "y"]}))
    assert stream.t.tolist() == [0, 1] and "the order of the rows" in str(stream.account["time"])


def test_rows_out_of_order_are_sorted_with_a_notice(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", {"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "time": [3, 1, 2]})
    with pytest.warns(ChronoscaleWarning, match=r"t\.csv:3: time 1 is before the 3 that precedes it; column 'time' is read as the time"):
        stream = read_events(path)
    assert named_events(stream) == [("b", "c", 1), ("c", "a", 2), ("a", "b", 3)]
    assert named_events(read_events(path, sort=True)) == named_events(stream)
    with pytest.raises(UserError, match="is before"):
        open_dataset(path, strict=True)


WRONG = {
    "src,dst,time\na,b,1\nb,c\n": "t.csv:3: expected 3 fields, found 2",
    "src,dst,time\na,b,1\n\nb,c,2,3\n": "t.csv:4: expected 3 fields, found 4",
    "src,dst,time\na,b,2019-01-01\nb,c,noon\n": "t.csv:3: column 'time': expected a date, as others are, found 'noon'",
    "src,dst,time\na,b,2019-01-01\nb,c,-1\n": "t.csv:3: column 'time': expected a date, as others are, found '-1'",
    "src,dst,time\na,b,2019-01-01\nb,c,2019-02-30\n": "t.csv:3: column 'time': expected a date, as others are, found '2019-02-30'",
    'src,dst,time\n"a\nx",b,2019-01-01\n\nb,c,2019-02-30\n': "t.csv:5: column 'time'",
    "src,dst,time\na,b,2019-01-01 10:00Z\nb,c,2019-01-02\n": "t.csv:3: column 'time': expected a time with a zone, found '2019-01-02'",
    "src,dst,time\na,b,13/01/2019\nb,c,01/13/2019\n": "t.csv:3: column 'time': expected a date with the day first, as others have it",
    "src,dst,time\na,b,1\nb,c,\n": "t.csv:3: column 'time': expected a time, found ''",
    "src,dst,time,label\na,b,1,0\nb,c,2,0.5\n": "t.csv:3: column 'label': expected an integer label, found '0.5'",
    "src,dst,time,f1\na,b,1,0\nb,c,2,1e39\n": "t.csv:3: column 'f1': a number beyond the range of float32",
    "src,dst,time,f1\na,b,1,0\nb,c,2,\n": "t.csv:3: column 'f1': expected a number, found ''",
    f"src,dst,time\na,b,1\nb,{'c' * 256},2\n": "t.csv:3: column 'dst': expected a node of at most 255 characters, found a text of 256",
    "src,dst,time\n": "t.csv: no data",
    "src,src,dst,time\na,b,c,1\n": "several pairs of columns may be sources and destinations",
}


@pytest.mark.parametrize("content", WRONG)
def test_what_is_wrong_is_one_line_that_says_where(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        open_dataset(path, format="table")
    assert WRONG[content] in str(caught.value) and str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.parquet", b"PAR1 and no more", "truncated or not a Parquet file"),
        ("t.jsonl", b'{"src": "a", "dst": "b"}\n{"src": \n', "not a table of JSON, an object a line"),
        ("t.jsonl", b'{"src": "a", "d\xff": "b"}\n', "not a text file"),
        ("t.jsonl", b'{"src": "a\xff", "dst": "b"}\n', "truncated or damaged (Column 0: In chunk 0: Invalid"),
        ("t.csv", b"src,dst,time\na\0,b,5\n", "t.csv:2: column 'src': expected a node, found a text with a byte 0 in it"),
        ("t.json", b'[{"src": "a"}, 5]', "expected a list of objects"),
        ("t.json", b'[{"src": "a"},\n', ":2: not JSON"),
        ("t.csv", b"src,dst,time\nd\xe9,b,1\n", "(byte 14 is not UTF-8); the format table takes encoding=latin-1"),
        ("t.csv.gz", gzip.compress(b"src,dst,time\n" + b"a,b,1\n" * 9999, mtime=0)[:40], "truncated or damaged"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        open_dataset(tmp_path / name, format="table")
    assert message in str(caught.value) and str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("end", "kind"), [([{"id": 7}, {"id": 8}], "struct<id: int64>"), ([[7], [8, 9]], r"list<\w+: int64>")])
@pytest.mark.parametrize("form", ["parquet", "jsonl", "json"])
def test_nested_entries_are_no_nodes(tmp_path: Path, form: str, end: list[Any], kind: str) -> None:
    for columns in ({"src": end, "dst": ["a", "b"]}, {"src": ["a", "b"], "dst": end}):
        path = write_table(tmp_path / f"nested.{form}", {**columns, "time": [1, 2]})
        label = next(name for name, entries in columns.items() if entries is end)
        with pytest.raises(UserError, match=rf"nested\.{form}.*: column '{label}': expected a node, found entries of the type {kind}$"):
            open_dataset(path)


def test_text_in_another_encoding_or_with_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("von~from~to~time~w\nx~é~b~1~1,5\nx~b~é~2~2\n".encode("latin-1"))
    stream = read_events(path, format="table", encoding="latin-1", separator="~", decimal=",")
    assert named_events(stream) == [("é", "b", 1), ("b", "é", 2)] and stream.features is not None
    assert stream.features.ravel().tolist() == [1.5, 2]
    with pytest.raises(UserError, match="separator: expected one character, or tab, got '~~'"):
        open_dataset(path, format="table", separator="~~")


def test_a_header_that_tgl_shares_with_everybody_is_nobodys(tmp_path: Path) -> None:
    """Of TGL's own the same events, and of others what tables have: names, units of times, and questions."""
    path = write_table(tmp_path / "t.csv", {"src": [5, 0, 5], "dst": [9, 5, 7], "time": [1, 1, 4]})
    assert named_events(read_events(path)) == named_events(read_events(path, format="tgl")) == [("5", "9", 1), ("0", "5", 1), ("5", "7", 4)]
    seconds = [1_290_000_000 + row for row in range(12)]
    with pytest.raises(
        UserError, match=r"column 'src', which is read as the source, holds 1,290,000,000 to 1,290,000,011, which looks like"
    ):
        open_dataset(write_table(tmp_path / "t.csv", {"src": seconds, "dst": [*range(12)], "time": [*range(12)]}))
    path = write_table(tmp_path / "t.csv", {"src": [1, "ann"], "dst": [2, 3], "time": [1_290_000_000_000, 1_290_000_001_000]})
    assert named_events(read_events(path)) == [("1", "2", 1_290_000_000), ("ann", "3", 1_290_000_001)]


def test_formats_that_were_known_before_stay_what_they_were(tmp_path: Path) -> None:
    for content, format in (
        ("user_id,item_id,timestamp,state_label,f\n0,0,0.0,0,0.5\n", "jodie"),
        (",src,dst,time,ext_roll\n0,1,2,5.0,0\n", "tgl"),
        (",src,dst,time,ext_roll,label\n0,1,2,5.0,0,1\n", "tgl"),
        ("src,dst,time,ext_roll\n1,2,5,0\n", "tgl"),
        ("src,dst,time\n1,2,5\n", "table"),
        (",u,i,ts,label,idx\n0,1,2,0.0,0.0,1\n", "tgn"),
        ("1,2,5\n", "plain"),
        ("user,item,timestamp,state_label\nann,tea,2019-01-01,0\n", "table"),
        ("src,dst,time\nann,bob,5\n", "table"),
        ("src,dst,time\n1,2,2019-01-01\n", "table"),
        ("src,dst,time,label\n1,2,5,0\n", "table"),
    ):
        (tmp_path / "t.csv").write_text(content)
        assert detect(tmp_path / "t.csv") == format, content
    (tmp_path / "t.csv").write_text("user,item,rating,ts\n6,2,4,5\n")
    assert detect(tmp_path / "t.csv", ["columns", "skip"]) == "plain"  # as commands from before tables name them


IDS = st.lists(st.tuples(st.text("ab0é", min_size=1, max_size=3), st.text("ab0é", min_size=1, max_size=3)), min_size=2, max_size=8)


@given(pairs=IDS, start=st.integers(10**9, 2 * 10**9), data=st.data())
def test_any_names_come_back(pairs: list[tuple[str, str]], start: int, data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    times = [start + i * data.draw(st.integers(1, 9)) + 100 * i for i in range(len(pairs))]
    columns = {"from": [u for u, _ in pairs], "to": [v for _, v in pairs], "time": times}
    path = write_table(tmp_path_factory.mktemp("t") / f"t.{data.draw(st.sampled_from(['csv', 'tsv', 'jsonl', 'parquet']))}", columns)
    got, there = (
        named_events(read_events(path, src="from", dst="to", time="time")),
        [(u, v, t) for (u, v), t in zip(pairs, times, strict=True)],
    )
    assert got == there


def test_two_kinds_of_nodes_may_have_the_same_names(tmp_path: Path) -> None:
    stream = read_events(write_table(tmp_path / "t.csv", {"user": ["b", "a", "b"], "item": ["a", "c", "c"], "ts": [1, 2, 3]}))
    assert stream.node_names is not None and stream.node_names.tolist() == ["a", "b", "a", "c"]
    assert stream.src.tolist() == [1, 0, 1] and stream.dst.tolist() == [2, 3, 3]
    assert stream.account["nodes"] == "by name, of two kinds: 'user', and after them 'item'"
    assert read_events(tmp_path / "t.csv", bipartite="false").num_nodes == 3


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_integers_written_as_fractions_are_the_nodes_of_these_integers(tmp_path: Path, form: str) -> None:
    columns = {"source": [3.0, -1.0, 4.0], "target": ["3", "x", "-1"], "time": [1, 2, 3]}
    stream = read_events(write_table(tmp_path / f"t.{form}", columns))
    assert named_events(stream) == [("3", "3", 1), ("-1", "x", 2), ("4", "-1", 3)] and stream.num_nodes == 4
    columns |= {"source": [3.0, -1.5, 4.0]}
    with pytest.raises(UserError, match=r"holds fractions such as -1\.5, which ids do not"):
        open_dataset(write_table(tmp_path / f"t.{form}", columns))
    readings = {"station": [-1.0, 2.0] * 3, "time": [0, 0, 1, 1, 2, 2], "flow": [0.5, 2, 3, 4, 5, 6]}
    signal = open_dataset(write_table(tmp_path / f"r.{form}", readings))
    assert isinstance(signal, Signal) and signal.node_names is not None and signal.node_names.tolist() == ["-1", "2"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_words_for_nothing_are_names_of_nodes(tmp_path: Path, form: str) -> None:
    columns = {"origin": ["NA", "DE", "null"], "destination": ["DE", "None", "-"], "time": [1, 2, 3]}
    path = tmp_path / f"t.{form}"
    assert named_events(read_events(write_table(path, columns))) == [("NA", "DE", 1), ("DE", "None", 2), ("null", "-", 3)]
    assert read_events(write_table(path, {**columns, "origin": ["NA"] * 3})).num_nodes == 4
    for gaps in (["DE", "", "NA"], ["5", "NA", "7"], ["DE", None, "NA"]):  # beside numbers NA is no name
        with pytest.raises(UserError, match=r"column 'origin': expected a node, found '(NA)?'"):
            open_dataset(write_table(path, {**columns, "origin": gaps}))
    with pytest.raises(UserError, match="column 'label': expected a label, found 'NA'"):
        open_dataset(write_table(path, {**columns, "label": ["good", "NA", "bad"]}))


def test_codes_with_zeros_before_them_are_names(tmp_path: Path) -> None:
    stream = read_events(write_table(tmp_path / "t.csv", {"from": ["007", "7"], "to": ["7", "01"], "time": [1, 2]}))
    assert stream.node_ids is None and named_events(stream) == [("007", "7", 1), ("7", "01", 2)] and stream.num_nodes == 3
