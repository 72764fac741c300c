"""BatchStatistics: what planning needs of a stream of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Int64, check_columns
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams.events import EventStream


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics:
    """int64 [B], one entry a batch of events, from one pass of the sampler."""

    family: ClassVar[str] = "streams"
    events: Int64
    sampled: Int64  # neighbour slots filled, all layers
    unique_nodes: Int64
    unique_edges: Int64
    updated_nodes: Int64  # rows of memory written
    remote_nodes: Int64  # rows that another rank owns

    def __post_init__(self) -> None:
        check_columns(self, self.events.shape)

    def __len__(self) -> int:
        return len(self.events)


class Counts(NamedTuple):
    """Of a stream. self_loops: events from a node to itself. pairs: distinct (src, dst). duplicates: events that repeat the src, dst and
    time of another."""

    self_loops: int
    pairs: int
    duplicates: int


def count(events: EventStream) -> Counts:
    """In one sort."""
    keys = edge_keys.pack(events.src, events.dst)
    order = np.lexsort((keys, events.t))
    keys_by_time, time = keys[order], np.asarray(events.t)[order]
    again = (keys_by_time[1:] == keys_by_time[:-1]) & (time[1:] == time[:-1])
    return Counts(int(np.count_nonzero(events.src == events.dst)), np.unique(keys).size, int(np.count_nonzero(again)))
