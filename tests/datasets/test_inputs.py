"""Files as users bring them, a row each: what is read of it, or what is said. Nothing is guessed, and nothing is left out in silence."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets.formats.options import option_names
from chronoscale.datasets.formats.pickles.array_pickle import read_pickle
from chronoscale.datasets.formats.registry import FORMATS, open_dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

SIGNED = "6,2,4,1289241911.5\n6,5,-2,1289241941.25\n"
QUADS = "0\t3\t1\t24\n2\t3\t0\t25\n"
USUAL = "src,dst,weight,time"
EVENTS = {"src": np.array([0, 1]), "dst": np.array([1, 2]), "t": np.array([5, 6])}
GRAPH = {"x": np.ones((3, 2)), "edge_index": np.array([[0], [1]])}


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_text(content)
    return path


class Refused(NamedTuple):
    name: str
    content: Any
    message_parts: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})


REFUSED = [
    Refused("otc.csv", SIGNED, ("line 1 has 4 fields ('6,2,4,1289241911.5')", f"columns={USUAL}", "network_repository", "konect")),
    Refused("icews.txt", QUADS.replace("\n", "\t0\n"), (":1: 5 fields", f"columns={USUAL}")),
    Refused("one.txt", "1\n2\n", ("none of the known formats",)),
    Refused("one.csv", "1\n2\n", (":1: 1 fields ('1'), expected 'src dst' or 'src dst time'",), {"format": "plain"}),
    Refused("ml.csv", f"userId,movieId,rating,timestamp\n{SIGNED}", (":1: expected numbers, found 'userId,movieId", "skip=1", "columns="),
            {"format": "plain"}),
    Refused("epinions.txt", "# FromNodeId\tToNodeId\tSign\n0 1 -1\n1 2 1\n", (":1: the third column is 'Sign', not a time", "weight")),
    Refused("sx.txt", "# c\n1 2 3 4\n", (":2: 4 fields", "expected 'src dst time'", "network_repository or konect")),
    Refused("web.edges", "1 2\n2 3\n", ("2 fields", "'src dst weight time' or 'src dst time'", "plain")),
    Refused("r.edges", "1 2 3 4 5\n", (":1: 5 fields",)),
    Refused("out.x", "% asym\n1 2 1 5 9\n", (":2: 5 fields", "expected 'src dst weight time'")),
    Refused("edges.csv", ",src,dst,time\n0,1,2,5,0\n", (":2: expected 4 fields as in the header, found 5",)),
    Refused("edges.csv", ",src,dst,time,time\n0,0,1,2,5\n", (":1: expected a header with src, dst and time",)),
    Refused("w.txt", "1 2 1\n2 3 1\n", ("field 3, which is read as the time, is 1 in every row", "=src,dst,weight", "=src,dst,time")),
    Refused("mac.csv", "\r,2,5\n2,10000\n", (":2: expected a finite number, found ''",), {"format": "plain"}),
    Refused("t.txt", "1 2 9\n1 2 8\n", (":2: time 8 is before the 9", "field 3 is read as the time", "strict=true"), {"strict": True}),
    Refused("a.csv", SIGNED, ("unknown role in columns: 'tiem'; did you mean 'time'?",), {"columns": "src,dst,weight,tiem"}),
    Refused("a.csv", SIGNED, ("columns: src comes 2 times",), {"columns": "src,src,dst,time"}),
    Refused("a.csv", SIGNED, ("columns: expected src and dst among src,time,_,_",), {"columns": "src,time,_,_"}),
    Refused("a.csv", SIGNED, ("4 fields", "expected the 3 of columns=src,dst,time"), {"columns": "src,dst,time"}),
    Refused("a.csv", SIGNED, ("expected an integer node id",), {"columns": "src,weight,_,dst"}),
    Refused("a.csv", SIGNED, ("'srot'; did you mean 'sort'?", "valid: bipartite, columns, skip, sort, strict"), {"srot": True}),
    Refused("a.csv", SIGNED, ("option sort:", "got 'perhaps'"), {"sort": "perhaps"}),
    Refused("e.npz", EVENTS, ("values: no array 'delay'; found dst, src, t",), {"values": "delay"}),
    Refused("e.npz", EVENTS, ("values: an option of a signal",), {"values": "t"}),
    Refused("e.npz", EVENTS, ("missing: an option of a signal",), {"missing": "0"}),
    Refused("e.npz", EVENTS, ("ignore: no array 'lat'",), {"ignore": "lat"}),
    Refused("e.npz", EVENTS | {"t": np.array([1, 2**64 - 1], np.uint64)}, ("t: 18446744073709551615 is beyond int64",)),
    Refused("x.npz", GRAPH, ("weight: no array 'count'; found edge_index, x",), {"weight": "count"}),
    Refused("x.npz", GRAPH, ("unknown option of format 'npz': 'columns'", "valid: axes, ignore, missing"), {"columns": "src,dst"}),
    Refused("c.json", '{"edges": [[0, 1.5]], "FX": [[1, 2]]}', ("edges: expected a rectangular array of integers",)),
    Refused("c.json", '{"edges": [[0, true]], "FX": [[1, 2]]}', ("edges: expected a rectangular array of integers",)),
    Refused("c.json", '{"edges": [[0, 1]], "FX": [["1", 2]]}', ("FX: expected a rectangular array of numbers",)),
    Refused("c.json", '{"edges": [[0, 1]], "node_ids": 7, "FX": [[1, 2]]}', ("7 node_ids for 2 nodes",)),
    Refused("c.json", '{"edges": [[0, 1]], "block": [[1, 2]], "FX": [[1, 2]]}', ("readings under FX and block",)),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row.name} {row.message_parts[0][:40]}")
def test_what_is_refused_is_told(tmp_path: Path, row: Refused) -> None:
    path = write(tmp_path, row.name, row.content)
    with pytest.raises(UserError) as caught:
        open_dataset(path, **row.options)
    assert [part for part in row.message_parts if part not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


class Read(NamedTuple):
    name: str
    content: Any
    options: dict[str, Any]
    edges: list[tuple[int, int]]  # ids of the file
    t: list[float]
    features: list[list[float]] | None
    account: dict[str, Any]


READ = [
    Read("otc.csv", SIGNED, {"columns": USUAL}, [(6, 2), (6, 5)], [1289241911.5, 1289241941.25], [[4], [-2]],
         {"reader": "plain", "files": ["otc.csv"], "columns": ["src", "dst", "weight", "time"], "dropped": []}),
    Read("otc.csv", SIGNED, {"columns": ["src", "dst", "_rating", "time"]}, [(6, 2), (6, 5)], [1289241911.5, 1289241941.25], None,
         {"dropped": ["column 3 (rating)"]}),
    Read("icews.txt", QUADS, {"columns": "src feature dst time"}, [(0, 1), (2, 0)], [24, 25], [[3], [3]], {"dropped": []}),
    Read("icews.txt", QUADS, {"columns": "_,time,src,dst", "sort": "true"}, [(1, 24), (0, 25)], [3, 3], None, {"dropped": ["column 1"]}),
    Read("wide.txt", "1 2 .5 7 8 9\n", {"columns": "src,dst,weight,feature,feature,time"}, [(1, 2)], [9], [[0.5, 7, 8]], {}),
    Read("ml.csv", f"user,item,rating,ts\n{SIGNED}", {"columns": USUAL, "skip": 1, "bipartite": True}, [(6, 2), (6, 5)],
         [1289241911.5, 1289241941.25], [[4], [-2]], {}),
    Read("two.csv", "5,7\n7,5\n5,7\n", {}, [(5, 7), (7, 5), (5, 7)], [0, 1, 2], None,
         {"columns": ["src", "dst"], "time": "the order of the events, from 0 on: no column holds a time"}),
    Read("three.txt", "5 7 1\n7 5 1\n", {"columns": "src,dst,weight"}, [(5, 7), (7, 5)], [0, 1], [[1], [1]], {}),
    Read("same.txt", "5 7 1\n7 5 1\n", {"columns": "src,dst,time"}, [(5, 7), (7, 5)], [1, 1], None, {}),
    Read("mac.txt", "1 2 5\r2 3 6\r", {}, [(1, 2), (2, 3)], [5, 6], None, {}),
    Read("bom.csv", "\ufeff1,2,3\n", {}, [(1, 2)], [3], None, {}),
    Read("out.x", "% asym\n1 2 5 9\n", {}, [(1, 2)], [9], None, {"reader": "konect", "dropped": ["column 3 (weight)"]}),
    Read("out.x", "% asym\n1 2 5 9\n", {"columns": USUAL}, [(1, 2)], [9], [[5]], {"dropped": []}),
    Read("r.edges", "1,2,5\n", {}, [(1, 2)], [5], None, {"columns": ["src", "dst", "time"]}),
    Read("sx.txt", "# FromNodeId ToNodeId Sign\n0 1 -1\n", {"columns": "src,dst,weight"}, [(0, 1)], [0], [[-1]], {"reader": "snap"}),
    Read("edges.csv", ",src,dst,time,ext_roll\n0,1,2,5,0\n", {}, [(1, 2)], [5], None,
         {"columns": ["id", "src", "dst", "time", "split"], "split": "1 to train (in this order): read, and not used", "dropped": []}),
    Read("w.csv", "user_id,item_id,timestamp,state_label,f\n0,1,2,0,.5,.5,.5,.5\n", {}, [(0, 1)], [2], [[0.5] * 4],
         {"columns": ["src", "dst", "time", "label", "4 x feature"]}),
]  # fmt: skip


@pytest.mark.parametrize("row", READ, ids=lambda row: f"{row.name} {row.options}")
def test_what_is_read_is_what_was_said(tmp_path: Path, row: Read) -> None:
    events = open_dataset(write(tmp_path, row.name, row.content), **row.options)
    assert isinstance(events, EventStream) and events.node_ids is not None
    assert list(zip(events.node_ids[events.src].tolist(), events.node_ids[events.dst].tolist(), strict=True)) == row.edges
    assert_array_equal(events.t, row.t)
    assert events.features is None if row.features is None else events.features.tolist() == row.features
    assert {key: events.account.get(key) for key in row.account} == row.account


def test_arrays_that_nobody_reads_are_said_and_matrices_are_features(tmp_path: Path) -> None:
    path = write(tmp_path, "e.npz", EVENTS | {"msg": np.eye(2), "delay": np.array([1, 2]), "lat": np.ones(3), "names": np.array(["a"])})
    with pytest.warns(ChronoscaleWarning, match=r"e\.npz: arrays that nobody reads: lat, names; the option ignore=lat,names"):
        events = open_dataset(path)
    assert isinstance(events, EventStream)
    assert_array_equal(events.features, [[1, 0, 1], [0, 1, 2]])
    assert events.account["arrays"] == ["src", "dst", "t", "msg (feature)", "delay (feature)"]
    assert events.account["dropped"] == ["lat", "names"]
    assert open_dataset(path, ignore="lat,names").account["dropped"] == ["lat", "names"]  # and no warning, which would fail here


def test_files_of_one_stream_are_read_together(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.csv", "9,2,4,10\n2,9,1,11\n"), write(tmp_path, "b.csv", "9,70,5,12.5\n")
    events = open_dataset([first, second], columns=USUAL)
    assert isinstance(events, EventStream) and events.node_ids is not None
    assert events.node_ids[events.src].tolist() == [9, 2, 9] and events.node_ids[events.dst].tolist() == [2, 9, 70]
    assert events.t.tolist() == [10, 11, 12.5] and events.features is not None and events.features.ravel().tolist() == [4, 1, 5]
    assert events.account["files"] == ["a.csv", "b.csv"]
    with pytest.raises(UserError, match=r"a\.csv:1: time 10\.0 is before the 12\.5"):
        open_dataset([second, first], columns=USUAL, strict=True)
    assert open_dataset([second, first], columns=USUAL, sort=True).t.tolist() == [10, 11, 12.5]  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"a\.csv: 4 fields, and another file of the stream has a different number"):
        open_dataset([write(tmp_path, "a.edges", "1 2 3 4\n").rename(first), write(tmp_path, "b.edges", "1 2 3\n")], "network_repository")
    with pytest.raises(UserError, match="look like"):
        open_dataset([second, write(tmp_path, "out.x", "% asym\n1 2 5 9\n")])
    with pytest.raises(UserError, match="format 'npz' reads one file, got 2"):
        open_dataset([write(tmp_path, "x.npz", GRAPH)] * 2)


def test_readers_of_signals_take_the_same_options(tmp_path: Path) -> None:
    np.save(tmp_path / "adj_mat.npy", np.eye(2))
    np.save(tmp_path / "node_values.npy", np.zeros((3, 2, 1)))
    for path in (write(tmp_path, "x.npz", GRAPH | {"x": np.zeros((3, 2))}), tmp_path / "node_values.npy",
                 write(tmp_path, "c.json", '{"edges": [[0, 1]], "FX": [[0, 0], [0, 0], [0, 0]]}')):  # fmt: skip
        signal = open_dataset(path, missing="0", time_of_day="288")
        assert signal.num_channels == 2 and signal.missing_count == 6  # type: ignore[union-attr]
    write(tmp_path, "x_adj.csv", "1,0\n0,1\n")
    with pytest.raises(UserError, match=r"x_speed\.csv:1: expected a header of sensor ids, found the numbers 64\.5,67"):
        open_dataset(write(tmp_path, "x_speed.csv", "64.5,67\n62,68\n"))


def test_a_damaged_file_takes_no_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "node_values.npy", np.zeros((1, 2, 1)))
    np.save(tmp_path / "adj_mat.npy", np.eye(2))
    whole = (tmp_path / "node_values.npy").read_bytes()
    (tmp_path / "node_values.npy").write_bytes(whole.replace(b"(1, 2, 1), }" + b" " * 12, b"(1, 2, 1000000000000), }"))
    (tmp_path / "adj.pkl").write_bytes(b"\x80\x02]r\xf0\xff\xff\xff.")  # the object of number 2**32 - 16
    tracemalloc.start()
    with pytest.raises(UserError, match=r"node_values\.npy: truncated or not a \.npy file"):
        open_dataset(tmp_path / "node_values.npy")
    assert read_pickle(tmp_path / "adj.pkl") == []
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_the_document_lists_every_option_of_every_format() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for name, form in FORMATS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert [option for option in option_names(form.read) if f"`{option}`" not in row.rsplit("|", 2)[1]] == [], name
