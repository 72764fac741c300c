"""The store: every container comes back from its memory maps; what is damaged is named."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets import store
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

IDS = np.arange(4, dtype=np.int32)
DATASETS = {
    "snapshots": SnapshotSequence(
        4, np.array([0, 2, 2, 4]), IDS, IDS, np.ones(4, dtype=np.float32), np.array([7, 8, 9]), np.eye(4, dtype=np.float32), name="three"
    ),
    "no edges": SnapshotSequence(4, np.array([0, 0]), IDS[:0], IDS[:0]),
    "events": EventStream(4, IDS, IDS[::-1].copy(), np.arange(4) / 2, np.eye(4, dtype=np.float32), np.arange(4), np.arange(4) * 10),
    "signal": Signal(np.ones((3, 4, 2), dtype=np.float32), np.stack([IDS, IDS]), missing=np.zeros((3, 4, 2), dtype=np.bool_)),
}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("kind", DATASETS)
def test_what_is_saved_loads_equal(tmp_path, kind, mmap):
    dataset = DATASETS[kind]
    store.save(tmp_path / "d", dataset)
    again = store.load(tmp_path / "d", mmap=mmap)
    assert type(again) is type(dataset)
    assert getattr(again, "verified", True)  # a signal's values were read when it was saved
    for field in (f for f in fields(dataset) if f.name != "verified"):
        value, loaded = getattr(dataset, field.name), getattr(again, field.name)
        assert (value is None) == (loaded is None), field.name
        assert_array_equal(loaded, value)
        if isinstance(value, np.ndarray):
            assert loaded.dtype == value.dtype
            assert isinstance(loaded, np.memmap) == (mmap and value.size > 0)
    assert [p.name for p in tmp_path.iterdir()] == ["d"]  # no draft stays behind


@pytest.mark.parametrize("weighted", [True, False])
def test_a_stream_is_written_as_its_sequence_is(tmp_path, weighted):
    graphs = list(EvolvingGraph(100, 150, 20, seed=1))
    if weighted:
        graphs = [replace(g, weight=g.src.astype(np.float32)) for g in graphs]
    store.save_snapshots(tmp_path / "stream", iter(graphs), "twenty")
    store.save(tmp_path / "whole", SnapshotSequence.from_snapshots(graphs, "twenty"))
    names = sorted(p.name for p in (tmp_path / "whole").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "stream").iterdir())
    streamed, whole = store.load(tmp_path / "stream"), store.load(tmp_path / "whole")
    assert (streamed.name, streamed.num_nodes, len(streamed)) == ("twenty", 100, 20)
    for name in names:
        if name != "meta.json":
            assert (tmp_path / "stream" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert_array_equal(streamed[19].src, whole[19].src)


def test_a_stream_that_breaks_leaves_nothing(tmp_path):
    graph = Snapshot(4, IDS, IDS)
    for bad, message in (([], "at least one"), ([graph, Snapshot(5, IDS, IDS)], "share num_nodes")):
        with pytest.raises(UserError, match=message):
            store.save_snapshots(tmp_path / "d", bad)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space"):
        store.save(tmp_path / "d", DATASETS["events"])
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_never_overwritten(tmp_path):
    store.save(tmp_path / "d", DATASETS["events"])
    with pytest.raises(UserError, match="d: already exists"):
        store.save(tmp_path / "d", DATASETS["signal"])


def _edit(folder, old, new):
    meta = folder / "meta.json"
    assert old in meta.read_text()
    meta.write_text(meta.read_text().replace(old, new))


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "src.npy").unlink(), r"src\.npy: no such file"),
        (lambda d: (d / "src.npy").write_bytes((d / "src.npy").read_bytes()[:-4]), r"src\.npy: truncated"),
        (lambda d: (d / "src.npy").write_bytes(b""), r"src\.npy: truncated"),
        (lambda d: np.save(d / "src.npy", np.zeros(3, dtype=np.int32)), r"src\.npy: meta\.json promises int32 \[4\]"),
        (lambda d: np.save(d / "src.npy", np.full(4, 99, dtype=np.int32)), r"node id 99 is outside"),
        (lambda d: (d / "meta.json").unlink(), r"d: a folder without a dataset: no meta\.json, which .* writes with the arrays"),
        (lambda d: (d / "meta.json").write_text("{"), r"meta\.json: not JSON"),
        (lambda d: (d / "meta.json").write_text("[]"), r"meta\.json: expected keys and values"),
        (lambda d: _edit(d, '"version": 1', '"version": 2'), r"meta\.json: version: expected 1"),
        (lambda d: _edit(d, '"kind": "events"', '"kind": "event"'), r"meta\.json: kind: expected 'snapshots', 'events' or 'signal'"),
    ],
)
def test_damage_is_named(tmp_path, damage, message, mmap):
    store.save(tmp_path / "d", DATASETS["events"])
    damage(tmp_path / "d")
    with pytest.raises(UserError, match=message):
        store.load(tmp_path / "d", mmap=mmap)


def test_a_signal_is_scanned_when_written_and_not_when_mapped(tmp_path):
    values = np.ones((3, 4, 2), np.float32)
    signal = Signal(values, np.stack([IDS, IDS]))
    values[2, 3, 1] = np.nan
    with pytest.raises(UserError, match=r"values\[2, 3, 1\]: not finite"):
        store.save(tmp_path / "d", signal)
    values[2, 3, 1] = 1
    store.save(tmp_path / "d", signal)
    assert store.load(tmp_path / "d").verified is True
    np.save(tmp_path / "d" / "values.npy", np.full((3, 4, 2), np.nan, np.float32))
    store.load(tmp_path / "d")
    _edit(tmp_path / "d", '"verified": true', '"verified": false')
    with pytest.raises(UserError, match="not finite"):
        store.load(tmp_path / "d")


@pytest.mark.parametrize("holes", [True, False])
def test_a_signal_written_in_blocks_loads_as_the_whole(tmp_path, holes):
    values = np.random.default_rng(0).random((17, 4, 2)).astype(np.float32)
    if holes:
        values[3:9, 2] = np.nan
    edges, weight = np.stack([IDS, IDS]), np.ones(4, np.float32)
    store.save_signal(tmp_path / "blocks", (values[at : at + 5] for at in range(0, 17, 5)), edges, weight, "x")
    store.save(tmp_path / "whole", Signal.from_readings(values, edges, weight, name="x"))
    assert (tmp_path / "blocks" / "values.npy").read_bytes() == (tmp_path / "whole" / "values.npy").read_bytes()
    blocks, whole = store.load(tmp_path / "blocks"), store.load(tmp_path / "whole")
    for field in fields(Signal):
        assert_array_equal(getattr(blocks, field.name), getattr(whole, field.name))


def test_blocks_that_do_not_fit_leave_nothing(tmp_path):
    block, edges = np.ones((2, 4, 1), np.float32), np.stack([IDS, IDS])
    for bad, message in (
        ([], "at least one block"),
        ([block, block[:, :3]], "block from step 2: expected shape"),
        ([block, block * np.float32(np.inf)], r"block from step 2: Signal.values\[0, 0, 0\]: not finite"),
        ([block[:, :3]], "node id 3 is outside"),
    ):
        with pytest.raises(UserError, match=message):
            store.save_signal(tmp_path / "d", bad, edges)
    assert list(tmp_path.iterdir()) == []
