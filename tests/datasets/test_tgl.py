"""TGL's folders: every file of them against plain arrays, and one line for files that do not fit one another."""

from __future__ import annotations

import io
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from chronoscale.datasets import store
from chronoscale.datasets.formats.pickles.torch_file import read_tensor
from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

SRC, DST, TIME, ROLL = [3, 1, 3, 7], [1, 7, 7, 7], [5.0, 6.5, 6.5, 8.0], [0, 0, 1, 2]


def edges(ids: list[int] | None = None) -> str:
    rows = zip(ids or range(4), SRC, DST, TIME, ROLL, strict=True)
    return ",src,dst,time,ext_roll\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def graph(both: bool) -> dict[str, np.ndarray[Any, Any]]:
    """As gen_graph.py has it, with --add_reverse or without."""
    rows: list[list[tuple[int, float, int]]] = [[] for _ in range(8)]
    for event, (u, v, t) in enumerate(zip(SRC, DST, TIME, strict=True)):
        rows[u].append((v, t, event))
        if both:
            rows[v].append((u, t, event))
    flat = [entry for row in rows for entry in row]
    indices, ts, eid = (np.array(column) for column in zip(*flat, strict=True))
    return {"indptr": np.cumsum([0, *map(len, rows)]), "indices": indices, "ts": ts, "eid": eid}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "WIKI"
    made.mkdir()
    (made / "edges.csv").write_text(edges())
    np.savez(made / "ext_full.npz", **graph(both=False))
    torch.save(torch.arange(8.0).reshape(4, 2), made / "edge_features.pt")
    torch.save(torch.arange(16).reshape(8, 2).to(torch.float16), made / "node_features.pt")
    labels = zip(range(4), [3, 1, 3, 7], TIME, [1, 0, 2, 1], strict=True)
    (made / "labels.csv").write_text(",node,time,label\n" + "".join(",".join(map(str, row)) + "\n" for row in labels))
    return made


def events_of(path: Path, **options: Any) -> EventStream:
    dataset = open_dataset(path, **options)
    assert isinstance(dataset, EventStream) and dataset.node_ids is not None
    assert_array_equal(dataset.node_ids[dataset.src], SRC)
    assert_array_equal(dataset.node_ids[dataset.dst], DST)
    assert_array_equal(dataset.t, TIME)
    return dataset


def test_a_whole_folder(folder: Path, tmp_path: Path) -> None:
    assert detect(folder) == "tgl"
    events = events_of(folder)
    assert events.name == "WIKI"
    assert_array_equal(events.features, np.arange(8).reshape(4, 2))
    assert_array_equal(events.node_features, [[2, 3], [6, 7], [14, 15]])
    assert_array_equal(events.labels, [1, 0, 2, 1])
    assert events.account == {
        "reader": "tgl",
        "files": ["edges.csv", "edge_features.pt", "labels.csv", "node_features.pt"],
        "columns": ["id", "src", "dst", "time", "split"],
        "split": "2 to train, 1 to validate, 1 to test (in this order): read, and not used; training.split: [0.5, 0.25] has its shares",
        "labels": "one for each event, of its source, from labels.csv",
        "dropped": ["ext_full.npz, but for its number of events", "5 rows of node_features.pt, of nodes without an event"],
    }
    store.save(tmp_path / "made", events)
    assert detect(tmp_path / "made") == "store"
    assert_array_equal(store.load(tmp_path / "made").node_features, events.node_features)  # type: ignore[union-attr]


def test_the_graph_alone_tells_the_events_where_each_stands_in_it_once(folder: Path) -> None:
    (folder / "edges.csv").unlink()
    events = events_of(folder)
    assert_array_equal(events.features, np.arange(8).reshape(4, 2))
    assert_array_equal(events.labels, [1, 0, 2, 1])
    assert events.account["files"] == ["ext_full.npz", "edge_features.pt", "labels.csv", "node_features.pt"]
    np.savez(folder / "ext_full.npz", **graph(both=True))
    with pytest.raises(UserError, match=r"ext_full\.npz: every event stands in it twice \(gen_graph\.py --add_reverse\): which end is the"):
        open_dataset(folder)


def test_features_follow_events_that_are_sorted_and_ids(folder: Path) -> None:
    lines = edges().splitlines(keepends=True)
    (folder / "edges.csv").write_text("".join([lines[0], *lines[2:], lines[1]]))  # the first event comes last
    with pytest.warns(ChronoscaleWarning, match=r"edges\.csv:5: time 5\.0 is before the 8\.0"):
        events = events_of(folder)
    assert_array_equal(events.features, np.arange(8).reshape(4, 2))  # rows are of the ids, which came along
    assert_array_equal(events.labels, [1, 0, 2, 1])


def test_labels_of_other_times_are_dropped_with_a_warning(folder: Path) -> None:
    (folder / "labels.csv").write_text(",node,time,label,ext_roll\n0,3,5.0,1,0\n1,3,5.5,0,0\n")
    events = events_of(folder)
    assert events.labels is None
    assert events.account["labels"] == "2 in labels.csv, not one for each source and time of the 4 events: not kept"


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_tensors_of_every_kind_are_read_without_torch(tmp_path: Path, kind: str) -> None:
    features = (torch.arange(24) % 5).reshape(4, 6).to(getattr(torch, kind))
    views = (
        features,
        features.T,
        features[1:, 2:5],
        features[::2],
        features[:0],
        torch.nn.Parameter(features) if features.is_floating_point() else features,
    )
    for number, view in enumerate(views):
        torch.save(view, tmp_path / f"{number}.pt")
        read = read_tensor(tmp_path / f"{number}.pt")
        assert_array_equal(read, view.detach().numpy())
        assert read.dtype == kind and read.flags.writeable == (read.size == 0)
    assert "torch" not in sys.modules["chronoscale.datasets.formats.pickles.torch_file"].__dict__


class Copies:
    """Copies a mapping when unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return OrderedDict, ({"a": 1},)


class Payload:
    """Runs something when unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("run!",)


def test_nothing_that_a_tensor_file_names_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edge_features.pt"
    for content, message in (
        (Payload(), "refused __builtin__.print"),
        ({"weight": torch.ones(2)}, "found dict"),
        (torch.ones(2, 2).to_sparse(), "refused torch._utils._rebuild_sparse_tensor"),
        (torch.ones(2).to(torch.bfloat16), "refused torch.BFloat16Storage"),
    ):
        torch.save(content, path)
        with pytest.raises(UserError, match=message) as caught:
            read_tensor(path)
        assert str(caught.value).startswith(f"{path}: expected one tensor of numbers")
        assert "numpy.save('edge_features.npy', torch.load('edge_features.pt').float().numpy())" in str(caught.value)
    assert capsys.readouterr().out == ""
    torch.save([Copies()] * 2, path)
    with pytest.raises(UserError, match=r"edge_features\.pt: truncated or not a file of torch\.save"):
        read_tensor(path)
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(UserError, match=r"written by a torch before 1\.6"):
        read_tensor(path)


def test_a_damaged_tensor_is_one_line(tmp_path: Path) -> None:
    path, good = tmp_path / "a.pt", io.BytesIO()
    torch.save(torch.arange(600.0).reshape(200, 3), good)
    whole = good.getvalue()
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        spoilt = bytearray(whole[: generator.integers(len(whole))] if generator.random() < 0.2 else whole)
        for place in generator.integers(max(len(spoilt), 1), size=3 if len(spoilt) else 0):
            spoilt[place if generator.random() < 0.5 else int(place) % 500] = generator.integers(256)
        path.write_bytes(spoilt)
        try:
            read_tensor(path)
        except UserError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    assert refused > 100
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))
    with pytest.raises(UserError, match=r"a\.pt: truncated or not a file of torch\.save \(.*/data/0 has not the 600 numbers"):
        read_tensor(path)
    with pytest.raises(UserError, match=r"none\.pt: no such file"):
        read_tensor(tmp_path / "none.pt")


def _array(name: str, array: Any) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, array)


def _tensor(name: str, tensor: torch.Tensor) -> Callable[[Path], None]:
    return lambda folder: torch.save(tensor, folder / name)


def _text(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _graph(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        arrays = {**graph(both=False), **changes}
        np.savez(folder / "ext_full.npz", **{key: array for key, array in arrays.items() if array is not None})

    return change


def _without_edges_csv(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        change(folder)
        (folder / "edges.csv").unlink()

    return both


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_text("edges.csv", edges([0, 1, 1, 3])), "edges.csv:4: event id 1 stands twice, first in line 3"),
        (_text("edges.csv", edges([0, -1, 2, 3])), "edges.csv:3: event id -1 is below 0"),
        (_text("edges.csv", edges([0, 1, 2, 9])), "edge_features.pt: no row for the event with id 9: there are 4"),
        (_text("edges.csv", edges().replace("\n1,1,7,", "\n1,-1,7,")), "edges.csv:3: node id -1 is below 0"),
        (_text("edges.csv", edges().replace("6.5", "nan", 1)), "edges.csv:3: expected a finite number, found 'nan'"),
        (_text("edges.csv", edges().replace("8.0", "inf")), "edges.csv:5: expected a finite number, found 'inf'"),
        (_tensor("edge_features.pt", torch.ones(5, 2)), "edge_features.pt: 5 rows, expected 4, one for each event"),
        (_tensor("edge_features.pt", torch.ones(4)), "edge_features.pt: expected numbers in 2 dimensions, found float32 [4]"),
        (_tensor("edge_features.pt", torch.full((4, 1), torch.nan)), "edge_features.pt: not finite"),
        (_array("edge_features.npy", np.ones((4, 2))), "edge_features.pt: edge_features.npy is there too; keep the one that is meant"),
        (_tensor("node_features.pt", torch.ones(7, 2)), "node_features.pt: 7 rows, the events name node 7"),
        (_tensor("node_features.pt", torch.full((8, 1), torch.inf)), "node_features.pt: not finite"),
        (_graph(eid=np.arange(5), ts=np.ones(5), indices=np.ones(5, int)), "ext_full.npz: 5 entries, expected 4 or twice as many"),
        (_graph(indptr=np.arange(5)), "ext_full.npz: 4 nodes, edges.csv names node 7"),
        (_graph(ts=None), "ext_full.npz: expected the arrays indptr, indices, ts, eid of one dimension; ts is not there or another"),
        (_graph(ts=np.ones(3)), "ext_full.npz: indices, ts and eid are of different lengths"),
        (_text("ext_full.npz", "no archive"), "ext_full.npz: truncated or not a .npz archive"),
        (
            _without_edges_csv(_graph(eid=np.array([0, 1, 1, 3]))),
            "ext_full.npz: eid: expected the events 0 to 3; event 1 stands in it 2 times",
        ),
        (_without_edges_csv(_graph(eid=np.array([0, 1, 2, 4]))), "ext_full.npz: eid: expected the events 0 to 3; found 4"),
        (_without_edges_csv(_graph(eid=np.array([0, 1, 2, -3]))), "ext_full.npz: eid[3]: event id -3 is below 0"),
        (_without_edges_csv(_graph(indices=np.array([7, 1, -2, 7]))), "ext_full.npz: indices[2]: node id -2 is below 0"),
        (_without_edges_csv(_graph(indptr=np.arange(9))), "ext_full.npz: indptr: expected to rise from 0 to 4"),
        (_without_edges_csv(_graph(ts=np.array([5, 6.5, np.nan, 8]))), "ext_full.npz: ts[2]: expected a finite number, found nan"),
        (_text("labels.csv", ",node,time\n0,3,5.0\n"), "labels.csv:1: expected a header with node, time and label"),
        (_text("labels.csv", ",node,time,label\n0,3,5.0,.5\n"), "labels.csv:2: expected an integer label, found 0.5"),
    ],
)
def test_files_that_do_not_fit_are_one_line(folder: Path, change: Callable[[Path], None], message: str) -> None:
    change(folder)
    with pytest.raises(UserError) as caught:
        open_dataset(folder)
    assert str(caught.value).startswith(f"{folder}/{message}") and "\n" not in str(caught.value)


def test_a_graph_out_of_order_is_sorted_with_a_notice(folder: Path) -> None:
    arrays = graph(both=False)
    arrays["eid"] = 3 - arrays["eid"]
    np.savez(folder / "ext_full.npz", **arrays)
    (folder / "edges.csv").unlink()
    (folder / "labels.csv").unlink()
    with pytest.warns(ChronoscaleWarning, match=r"ext_full\.npz: event 1: time 6\.5 is before the 8\.0 that precedes it"):
        dataset = open_dataset(folder)
    assert isinstance(dataset, EventStream)
    assert_array_equal(dataset.t, sorted(TIME))
    assert_array_equal(dataset.features[:, 0], [6, 2, 4, 0])  # type: ignore[index]
