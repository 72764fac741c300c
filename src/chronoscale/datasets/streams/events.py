"""Container of continuous-time dynamic graphs: a stream of timed edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from chronoscale.datasets.account import Account
from chronoscale.datasets.arrays import (
    Float32,
    Float64,
    Int32,
    Int64,
    count_falls,
    find_not_finite,
    require,
    require_finite,
    require_ids,
    require_num_nodes,
)
from chronoscale.datasets.node_names import Names, require_names
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class EventStream:
    """Event stream, a dataset of the family streams (a continuous-time dynamic graph): M events src -> dst at time t, in time order;
    repeated edges are separate events.

    src, dst int32 [M]; t int64 or float64 [M], non-decreasing, in the source's unit (mostly seconds); features float32 [M, D] or None;
    labels int64 [M] or None (state after the event); node_ids int64 [N] or None (ids in the source). account: how it was read.
    node_features float32 [N, F] or None. node_names [N], text, or None (what the source calls its nodes). Arrays may be memory-mapped: they
    are checked block by block. Raises UserError for ids out of range, time that falls, or NaN.
    """

    num_nodes: int
    src: Int32
    dst: Int32
    t: Int64 | Float64
    features: Float32 | None = None
    labels: Int64 | None = None
    node_ids: Int64 | None = None
    name: str = ""
    account: Account = field(default_factory=dict)
    node_features: Float32 | None = None
    node_names: Names | None = None

    def __post_init__(self) -> None:
        require_num_nodes(self.num_nodes)
        events = self.src.size
        require(self.src, "EventStream.src", "int32", (None,))
        require(self.dst, "EventStream.dst", "int32", (events,))
        require(self.t, "EventStream.t", "int64 float64", (events,))
        require(self.features, "EventStream.features", "float32", (events, None))
        require(self.labels, "EventStream.labels", "int64", (events,))
        require(self.node_ids, "EventStream.node_ids", "int64", (self.num_nodes,))
        require(self.node_features, "EventStream.node_features", "float32", (self.num_nodes, None))
        require_names(self.node_names, "EventStream.node_names", self.num_nodes)
        require_ids(self.src, "EventStream.src", self.num_nodes)
        require_ids(self.dst, "EventStream.dst", self.num_nodes)
        if (at := find_not_finite(self.t)) is not None:
            raise UserError(f"EventStream.t[{at}]: time is not finite")
        if (at := count_falls(self.t)[1]) > 0:
            raise UserError(f"EventStream.t[{at}]: time {self.t[at]} is before {self.t[at - 1]}")
        require_finite(self.features, "EventStream.features")
        require_finite(self.node_features, "EventStream.node_features")

    def __len__(self) -> int:
        return self.src.size

    def span(self, start: int, stop: int) -> EventStream:
        """Return the stream of events start..stop-1, over the same nodes, as views."""
        part = slice(start, stop)
        features = None if self.features is None else self.features[part]
        labels = None if self.labels is None else self.labels[part]
        return replace(self, src=self.src[part], dst=self.dst[part], t=self.t[part], features=features, labels=labels)

    @classmethod
    def from_blocks(cls, blocks: Sequence[EventStream], node_features: Float32 | None = None) -> EventStream:
        """Join blocks of events over the same nodes, consecutive in time, into one stream with the first one's name, node_ids
        and node_names. Blocks have features or labels all or none. node_features: float32 [N, F] of the whole."""
        first = blocks[0]
        src, dst, t = (np.concatenate([getattr(block, column) for block in blocks]) for column in ("src", "dst", "t"))
        features = None if first.features is None else np.concatenate([block.features for block in blocks if block.features is not None])
        labels = None if first.labels is None else np.concatenate([block.labels for block in blocks if block.labels is not None])
        joined = cls(first.num_nodes, src, dst, t, features, labels, first.node_ids, first.name, node_features=node_features)
        return replace(joined, node_names=first.node_names)
