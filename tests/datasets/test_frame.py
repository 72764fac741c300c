"""Tables of the containers, through Parquet and back."""

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from chronoscale.datasets.frame import frame
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream

IDS = np.array([0, 1, 0], dtype=np.int32)


def test_snapshots_are_a_row_an_edge(tmp_path):
    sequence = SnapshotSequence(2, np.array([0, 2, 2, 3]), IDS, IDS, np.array([1, 2, 3], dtype=np.float32))
    frame(sequence).to_parquet(tmp_path / "s.parquet")
    table = pd.read_parquet(tmp_path / "s.parquet")
    assert table.to_dict("list") == {"snapshot": [0, 0, 2], "src": [0, 1, 0], "dst": [0, 1, 0], "weight": [1, 2, 3]}


def test_events_carry_labels_and_features():
    features = np.arange(6, dtype=np.float32).reshape(3, 2)
    table = frame(EventStream(2, IDS, IDS, np.array([1, 2, 2]), features, np.array([0, 0, 1])))
    assert list(table.columns) == ["src", "dst", "t", "label", "f0", "f1"]
    assert_array_equal(table[["f0", "f1"]], features)
    assert list(frame(EventStream(2, IDS, IDS, np.array([1, 2, 2]))).columns) == ["src", "dst", "t"]


def test_a_signal_shows_what_is_missing():
    values = np.arange(8.0).reshape(2, 2, 2)
    table = frame(Signal(values, np.zeros((2, 1), dtype=np.int32), missing=values == 3))
    assert list(table.columns) == ["0.0", "0.1", "1.0", "1.1"]
    assert_array_equal(table, [[0, 1, 2, np.nan], [4, 5, 6, 7]])
