"""Prepared event streams on which rows of schedules are counted, of random events, for `count_kernels.py` and `count_moved.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol, Task
from chronoscale.strategies.streams.kinds.base import PATCHES, StreamKind


def prepared_stream(folder: Path, nodes: int, events: int, features: int, edge: int, task: Task) -> Path:
    """Make a stream of so many nodes and events in `folder`, and return the folder in which it is prepared for a task. features, edge: of
    nodes and of events, 0: none."""
    drawn, made = np.random.default_rng(2), folder / f"{features}-{edge}-{task}"
    src, dst = drawn.integers(0, nodes, (2, events)).astype(np.int32)
    of_edges = drawn.standard_normal((events, edge)).astype(np.float32) if edge else None
    of_nodes = drawn.standard_normal((nodes, features)).astype(np.float32) if features else None
    labels = (src % 2).astype(np.int64) if task == "node" else None
    store.save(made / "stream", EventStream(nodes, src, dst, np.arange(events), of_edges, labels, node_features=of_nodes))
    PreparedStream.make(made / "prepared", made / "stream", Protocol(task=task, ranked=2))
    return made / "prepared"


def trains_on(kind: StreamKind, data: StreamStatistics) -> bool:
    """Return whether a kind of model trains on a stream's task: one of pairs predicts no labels."""
    return not (kind.spatial == PATCHES and data.classes)
