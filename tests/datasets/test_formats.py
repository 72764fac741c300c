"""Every format from a tiny file of its kind; every way a file is wrong names the file, and the line where there are lines."""

import gzip
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import FORMATS, detect, open_dataset
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

KONECT = "% asym positive\n% 3 9 9\n1 2 1 100\n2 9 1 100\n9 1 1 105\n"
SNAP = "# FromNodeId ToNodeId t\n5 7 10\n7 5 11\n\n5 300 12\n"
JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,0.5,-1\n2,0,36.0,1,0.25,3\n"
TGL = ",src,dst,time,ext_roll\n0,1,2,5.0,0\n1,2,1,6.5,1\n"
EDGES = "% bip\n1,1,5.0,1000\n2,1,3.5,1001\n"
CHICKENPOX = json.dumps({"edges": [[0, 1], [1, 0], [1, 1]], "node_ids": {"A": 0, "B": 1}, "FX": [[1, 2.5], [3, 4], [5, 6]]})
WINDMILL = json.dumps({"edges": [[0, 1]], "weights": [0.5], "block": [[1, 2], [3, 4]]})


def write(folder, name, content):
    path = folder / name
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "format", "src", "dst", "t", "node_ids"),
    [
        ("out.mail", KONECT, "konect", [0, 1, 2], [1, 2, 0], [100, 100, 105], [1, 2, 9]),
        ("graph.txt", KONECT.replace("asym", "bip").replace("% 3 9 9", "% 3 3 3"), "konect", [0, 1, 2], [4, 5, 3], [100, 100, 105], None),
        ("sx.txt", SNAP, "snap", [0, 1, 0], [1, 0, 2], [10, 11, 12], [5, 7, 300]),
        ("sx.txt.gz", gzip.compress(SNAP.encode(), mtime=0), "snap", [0, 1, 0], [1, 0, 2], [10, 11, 12], [5, 7, 300]),
        ("wiki.csv", JODIE, "jodie", [0, 1], [2, 2], [0.0, 36.0], [0, 2, 0]),
        ("edges.csv", TGL, "tgl", [0, 1], [1, 0], [5.0, 6.5], [1, 2]),
        ("rec.edges", EDGES, "network_repository", [0, 1], [0, 0], [1000, 1001], [1, 2]),
        ("plain.txt", "1 2 5\n2 1000000 6\n", "plain", [0, 1], [1, 2], [5, 6], [1, 2, 1_000_000]),
        ("plain.csv", "1, 2, 5\n2, 3, 6.5\n", "plain", [0, 1], [1, 2], [5.0, 6.5], [1, 2, 3]),
    ],
)
def test_a_stream_of_each_format(tmp_path, name, content, format, src, dst, t, node_ids):
    path = write(tmp_path, name, content)
    assert detect(path) == format
    events = open_dataset(path)
    assert isinstance(events, EventStream)
    assert_array_equal(events.src, src)
    assert_array_equal(events.dst, dst)
    assert_array_equal(events.t, t)
    assert events.t.dtype == np.array(t).dtype
    if node_ids is not None:
        assert_array_equal(events.node_ids, node_ids)
    assert events.num_nodes == len(events.node_ids)


def test_jodie_keeps_features_and_labels_through_sorting(tmp_path):
    lines = JODIE.splitlines(keepends=True)
    events = open_dataset(write(tmp_path, "w.csv", lines[0] + lines[2] + lines[1]), sort=True)
    assert_array_equal(events.t, [0, 36])
    assert_array_equal(events.features, [[0.5, -1], [0.25, 3]])
    assert_array_equal(events.labels, [0, 1])


def test_sorting_is_stable(tmp_path):
    events = open_dataset(write(tmp_path, "a.txt", "1 1 9\n2 2 5\n3 3 5\n"), sort=True)
    assert_array_equal(events.node_ids[events.src], [2, 3, 1])


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.txt", "1 1 9\n2 2 5\n3 3 5\n", ":2: time 5 is before the 9 that precedes it; field 3 is read as the time"),
        ("out.x", "% asym\n1 1 7 9\n2 2 7 5\n3 3 7 5\n", ":3: time 5 is before the 9 that precedes it; field 4"),
        ("edges.csv", ",src,dst,time\n0,1,1,9\n1,2,2,5\n2,3,3,5\n", ":3: time 5 is before the 9"),
        ("e.npz", {"src": np.array([1, 2, 3]), "dst": np.array([1, 2, 3]), "t": np.array([9, 5, 5])}, ": t[1]: time 5 is before the 9"),
    ],
)
def test_events_out_of_order_are_sorted_with_a_notice_or_refused(tmp_path, name, content, where):
    path = write(tmp_path, name, content)
    with pytest.warns(ChronoscaleWarning) as warned:
        events = open_dataset(path)
    (message,) = [str(one.message) for one in warned]
    assert message.startswith(f"{path}{where}") and "\n" not in message
    assert "sorted by time: 1 of 3 events came after a later one; sort=true says that this is meant, strict=true refuses it" in message
    assert_array_equal(events.t, [5, 5, 9])
    assert_array_equal((np.arange(4) if events.node_ids is None else events.node_ids)[events.src], [2, 3, 1])
    assert events.account["order"] == "sorted by time: 1 of 3 events came after a later one"
    assert_array_equal(open_dataset(path, sort=True).src, events.src)  # and no warning, which would fail here
    with pytest.raises(UserError, match="without the option strict=true, events are sorted") as caught:
        open_dataset(path, strict=True)
    assert str(caught.value).startswith(f"{path}{where}")
    with pytest.raises(UserError, match=f"{name}: sort and strict exclude each other"):
        open_dataset(path, sort=True, strict=True)


def test_signals(tmp_path):
    chickenpox = open_dataset(write(tmp_path, "chickenpox.json", CHICKENPOX))
    assert isinstance(chickenpox, Signal)
    assert_array_equal(chickenpox.values[:, :, 0], np.array([[1, 2.5], [3, 4], [5, 6]]))
    assert_array_equal(chickenpox.edge_index, [[0, 1, 1], [1, 0, 1]])
    assert_array_equal(open_dataset(write(tmp_path, "windmill.json", WINDMILL)).edge_weight, [0.5])
    write(tmp_path, "los_adj.csv", "1,0.5\n0,1\n")
    los = open_dataset(write(tmp_path, "los_speed.csv", "773869,767541\n64.5,67\n62,68\n60,69\n"))
    assert_array_equal(los.node_ids, [773869, 767541])
    assert_array_equal(los.values[:, 1, 0], [67, 68, 69])
    assert_array_equal(los.edge_index, [[0, 0, 1], [0, 1, 1]])
    assert_array_equal(los.edge_weight, [1, 0.5, 1])


def test_traffic_arrays(tmp_path):
    values = np.arange(12.0).reshape(2, 3, 2)
    np.save(tmp_path / "pems_node_values.npy", values)
    np.save(tmp_path / "pems_adj_mat.npy", np.diag([1.0, 0.5], k=1))
    signal = open_dataset(tmp_path / "pems_node_values.npy")
    assert_array_equal(signal.values, values)
    assert_array_equal(signal.edge_index, [[0, 1], [1, 2]])
    assert_array_equal(signal.edge_weight, [1, 0.5])
    np.save(tmp_path / "pems_adj_mat.npy", np.eye(4))
    with pytest.raises(UserError, match=r"pems_adj_mat\.npy: expected 3 x 3"):
        open_dataset(tmp_path / "pems_node_values.npy")
    whole = (tmp_path / "pems_node_values.npy").read_bytes()
    (tmp_path / "pems_node_values.npy").write_bytes(whole[:-8])
    with pytest.raises(UserError, match=r"node_values\.npy: truncated"):
        open_dataset(tmp_path / "pems_node_values.npy")


def test_archives_are_told_apart_by_their_keys(tmp_path):
    ids = np.array([1, 0, 0], dtype=np.int16)
    months = open_dataset(
        write(
            tmp_path,
            "s.npz",
            {
                "src": ids,
                "dst": ids,
                "ptr": np.array([0, 1, 3]),
                "weight": ids + 1,
                "snapshot": np.array([b"2009-10", b"2009-11"]),
                "num_nodes": np.int64(4),
            },
        )
    )
    assert_array_equal(months.labels, [200910, 200911])
    assert months.num_nodes == 4
    assert_array_equal(months[1].weight, [2])  # a repeated edge merges
    flights = open_dataset(
        write(
            tmp_path,
            "e.npz",
            {"src": ids, "dst": ids, "t": np.arange(3, dtype=np.int32), "delay": ids, "node_names": np.array(["a", "b", "c"])},
        )
    )
    assert (flights.num_nodes, flights.features.shape, flights.t.dtype) == (3, (3, 1), np.int64)
    cases = {"cases": np.full((2, 3), 2**24 + 1, dtype=np.int32), "edge_index": np.zeros((2, 1), dtype=np.int16)}
    assert_array_equal(open_dataset(write(tmp_path, "x.npz", cases), values="cases").values, 2**24 + 1)


def test_nan_is_a_missing_reading_and_infinity_an_error(tmp_path):
    x, edges = np.array([[1, np.nan], [3, 4]], np.float32), np.zeros((2, 1), np.int32)
    np.save(tmp_path / "adj_mat.npy", np.eye(2, dtype=np.float32))
    np.save(tmp_path / "node_values.npy", x[:, :, None])
    files = [write(tmp_path, "x.npz", {"x": x, "edge_index": edges}), tmp_path / "node_values.npy"]
    files.append(write(tmp_path, "x.json", '{"edges": [[0, 1]], "FX": [[1, null], [3, 4]]}'))
    for file in files:
        assert open_dataset(file).missing.ravel().tolist() == [False, True, False, False]
    for bad in (
        write(tmp_path, "y.npz", {"x": x * np.inf, "edge_index": edges}),
        write(tmp_path, "y.json", '{"edges": [], "FX": [[Infinity]]}'),
    ):
        with pytest.raises(UserError):
            open_dataset(bad)


def test_a_stored_folder_opens_like_any_format(tmp_path):
    events = open_dataset(write(tmp_path, "a.txt", "1 2 3\n"))
    store.save(tmp_path / "stored", events)
    assert detect(tmp_path / "stored") == "store"
    assert_array_equal(open_dataset(tmp_path / "stored").node_ids, [1, 2])


PACKED = gzip.compress(("# x\n" + "".join(f"{i % 97} {i % 89} {i}\n" for i in range(20_000))).encode(), mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "1 2 3\n1 2\n", ":2: expected 3 fields, found 2"),
        ("a.txt", "1 2 3\n1 2 3 4\n", ":2: expected 3 fields, found 4"),
        ("a.txt", "1 2 3\n\n# 5\n", ":3: expected 3 fields, found 2"),
        ("a.txt", "1 2 3\n1 x 3\n", ":2: expected a finite number, found 'x'"),
        ("a.txt", "1 2 3\n1 2 nan\n", ":2: expected a finite number, found 'nan'"),
        ("a.txt", "1 2 3\n1 2 inf\n", ":2: expected a finite number, found 'inf'"),
        ("a.txt", '1 2 3\n1 "2" 3\n', ":2: expected a finite number, found '\"2\"'"),
        ("a.txt", "1 2 3\n1 -2 3\n", ":2: node id -2 is below 0"),
        ("a.txt", "1 2 3\n1 2.5 3\n", ":2: expected an integer node id, found 2.5"),
        ("a.txt", "1 2 3\n1 99999999999999999999 4\n", "an integer beyond 64 bits"),
        ("a.txt", "1 2 3\n\xff\n".encode("latin-1"), "not a text file"),
        ("a.txt", "", "none of the known formats"),
        ("a.txt", "# nothing\n", "no data"),
        ("sx.txt", "# c\n1 2 9\n# d\n\n1 2 8\n", ":5: time 8 is before the 9 that precedes it"),
        ("sx.txt", "# c\n1 2\n", ":2: 2 fields ('1 2'), expected 'src dst time'"),
        ("sx.txt.gz", PACKED[: len(PACKED) // 2], "truncated or damaged"),
        ("sx.txt.gz", PACKED[:-4], "truncated or damaged"),
        ("sx.txt.gz", PACKED[:9], "truncated or damaged"),
        ("out.x", KONECT.replace("1 2 1", "0 2 1"), ":3: node id 0 is below 1"),
        ("out.x", KONECT[: KONECT.rindex("9 1 1")], ":2: promises 3 edges, the file has 2"),
        ("out.x", "% asym\n1 2 1\n", ":2: 3 fields ('1 2 1'), expected 'src dst weight time'"),
        ("out.x", "% graph\n1 2 1 5\n", ":1: expected '% sym|asym|bip"),
        ("j.csv", JODIE.replace("0.25,3", "0.25"), ":3: expected 6 fields, found 5"),
        ("j.csv", JODIE.replace("0.25,3", "0.25,"), ":3: expected a finite number, found ''"),
        ("j.csv", JODIE.replace("36.0,1", "36.0,0.5"), ":3: expected an integer label, found 0.5"),
        ("j.csv", JODIE.replace("0.25,3", "0.25,1e39"), ":3: a number beyond the range of float32"),
        ("edges.csv", TGL.replace("6.5", "4.5"), ":3: time 4.5 is before the 5.0"),
        ("x.edges", "1 2\n3 4\n", "expected 'src dst weight time'"),
        ("c.json", '{"edges": [[0, 1],\n', ":2: not JSON"),
        ("c.json", '{"edges": [[0, 1]]}', "expected an object with 'edges' and one of 'FX', 'block'"),
        ("c.json", '{"edges": [[0, 1]], "FX": [[1, 2], [3]]}', "FX: expected a rectangular array"),
        ("c.json", '{"edges": [[0, 2]], "FX": [[1, 2]]}', "node id 2 is outside 0..1"),
        ("c.json", CHICKENPOX.replace('"B": 1', '"B": 1, "C": 2'), "3 node_ids for 2 nodes"),
        ("e.npz", b"PK\x03\x04 and no more", "truncated or not a .npz archive"),
        ("e.npz", b"", "truncated or not a .npz archive"),
        ("e.npz", {"src": np.array([0]), "dst": np.array([5]), "t": np.array([1]), "num_nodes": np.int64(3)}, "node id 5 is outside 0..2"),
        ("e.npz", {"src": np.array([0, 1]), "dst": np.array([1, 1]), "t": np.array([2, 1])}, "t[1]: time 1 is before the 2"),
        ("e.npz", {"src": np.array([0.5]), "dst": np.array([1]), "t": np.array([2])}, "src: expected integers"),
        ("e.npz", {"src": np.array([0]), "dst": np.array([1]), "t": np.array(["noon"])}, "t: expected numbers"),
        ("e.npz", {"src": np.array([0]), "dst": np.array([1, 2]), "t": np.array([2])}, "dst: expected shape"),
        ("s.npz", {"src": np.zeros((1, 1), int), "dst": np.array([1]), "ptr": np.array([0, 1])}, "src: expected integers in 1 dimensions"),
        ("s.npz", {"src": np.array([0]), "dst": np.array([1]), "ptr": np.array([0, 1]), "weight": np.ones(2)}, "columns of one length"),
        ("e.npz", {"a": np.array([0])}, "expected the keys src, dst, ptr or"),
        ("s.npz", {"src": np.array([0]), "dst": np.array([1]), "ptr": np.array([0, 2]), "num_nodes": np.int64(2)}, "ptr: expected to rise"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_one_line_that_says_where(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(UserError) as caught:
        open_dataset(path, **({"strict": True} if "is before" in message else {}))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "content"),
    [("out.a", KONECT), ("s.txt", SNAP), ("j.csv", JODIE), ("edges.csv", TGL), ("r.edges", EDGES), ("c.json", CHICKENPOX)],
)
def test_a_file_cut_or_spoilt_anywhere_reads_or_is_a_user_error(tmp_path, name, content):
    refused = 0
    for end in range(len(content)):
        for spoilt in (content[:end], content[:end] + "\0é" + content[end + 1 :]):
            path = write(tmp_path, name, spoilt)
            try:
                open_dataset(path, **({} if name == "c.json" else {"strict": True}))
            except UserError as error:
                refused += 1
                assert str(path) in str(error)
    assert refused > len(content) / 2


def test_a_truncated_archive_is_named(tmp_path):
    path = write(tmp_path, "e.npz", {"src": np.arange(1000), "dst": np.arange(1000), "t": np.arange(1000)})
    whole = path.read_bytes()
    for end in (len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:end])
        with pytest.raises(UserError, match=r"e\.npz: truncated"):
            open_dataset(path)


def test_tgcn_keeps_the_names_of_sensors(tmp_path):
    write(tmp_path, "named_adj.csv", "1,0\n0,1\n")
    for header in ("north,south", "007,7"):  # of numbers with zeros before them two may be one integer
        signal = open_dataset(write(tmp_path, "named_speed.csv", f"{header}\n5,6\n7,8\n"), format="tgcn")
        assert signal.node_ids is None and signal.node_names.tolist() == header.split(",")


def test_tgcn_wants_a_matrix_that_fits(tmp_path):
    write(tmp_path, "x_adj.csv", "1,0,0\n0,1,0\n0,0,1\n")
    with pytest.raises(UserError, match=r"x_adj\.csv: expected 2 x 2"):
        open_dataset(write(tmp_path, "x_speed.csv", "1,2\n5,6\n"))
    with pytest.raises(UserError, match=r"none_adj\.csv: no such file"):
        open_dataset(write(tmp_path, "none_speed.csv", "1,2\n5,6\n"), format="tgcn")
    write(tmp_path, "gap_adj.csv", "1,0\n0,1\n")
    assert open_dataset(write(tmp_path, "gap_speed.csv", "1,2\nnan,6\n5,NaN\n")).absent.tolist() == [[1], [1]]
    for wrong in ("inf", "x"):
        with pytest.raises(UserError, match=rf"gap_speed\.csv:2: expected a finite number, found '{wrong}'"):
            open_dataset(write(tmp_path, "gap_speed.csv", f"1,2\nnan,{wrong}\n"))


def test_unknown_formats_options_and_files(tmp_path):
    path = write(tmp_path, "a.txt", "1 2 3\n")
    with pytest.raises(UserError, match="unknown format 'konnect'; did you mean 'konect'"):
        open_dataset(path, "konnect")
    with pytest.raises(UserError, match="did you mean 'sort'"):
        open_dataset(path, srot=True)
    with pytest.raises(UserError, match=r"b\.txt: no such file"):
        open_dataset(tmp_path / "b.txt")
    assert set(FORMATS) >= {"konect", "snap", "jodie", "plain", "tgcn", "pygt", "npz"}


def test_ids_survive_both_ways_of_compaction(tmp_path):
    rng = np.random.default_rng(0)
    for top in (500, 10**15):  # dense: by table; sparse: by sorting
        ids = rng.integers(0, top, (200, 2))
        path = write(tmp_path, f"{top}.txt", "".join(f"{u} {v} {i}\n" for i, (u, v) in enumerate(ids.tolist())))
        events = open_dataset(path)
        assert_allclose(np.stack([events.node_ids[events.src], events.node_ids[events.dst]], axis=1), ids)
        assert_array_equal(events.node_ids, np.unique(ids))
