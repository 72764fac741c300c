"""The store: every container comes back from its memory maps; what is damaged is named."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets import store
from chronoscale.datasets.events import EventStream
from chronoscale.datasets.signal import Signal
from chronoscale.datasets.snapshots import SnapshotSequence
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
    for field in fields(dataset):
        value, loaded = getattr(dataset, field.name), getattr(again, field.name)
        assert (value is None) == (loaded is None), field.name
        assert_array_equal(loaded, value)
        if isinstance(value, np.ndarray):
            assert loaded.dtype == value.dtype
            assert isinstance(loaded, np.memmap) == (mmap and value.size > 0)
    assert [p.name for p in tmp_path.iterdir()] == ["d"]  # no draft stays behind


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
        (lambda d: (d / "meta.json").unlink(), r"meta\.json: no such file"),
        (lambda d: (d / "meta.json").write_text("{"), r"meta\.json: Invalid JSON"),
        (lambda d: (d / "meta.json").write_text("[]"), r"meta\.json: Input should be an object"),
        (lambda d: _edit(d, '"version": 1', '"version": 2'), r"meta\.json: version: Input should be 1"),
        (lambda d: _edit(d, '"kind": "events"', '"kind": "event"'), r"meta\.json: kind: Input should be 'snapshots', 'events' or 'signal'"),
    ],
)
def test_damage_is_named(tmp_path, damage, message, mmap):
    store.save(tmp_path / "d", DATASETS["events"])
    damage(tmp_path / "d")
    with pytest.raises(UserError, match=message):
        store.load(tmp_path / "d", mmap=mmap)
