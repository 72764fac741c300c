"""Splits: how a cache's room is shared between nodes and events, by a placement and by the best of all ways to share it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, CachePlacement, RowFrequencies
from chronoscale.datasets.arrays import Int32, Int64


class Split(NamedTuple):
    """Rows of each table that are cached, and how often batches find one of them, a row once a batch."""

    nodes: int
    edges: int
    hits: int


def chosen(placement: CachePlacement, seen: RowFrequencies, real: RowFrequencies, room: CacheCapacity) -> Split:
    """What a placement that has `seen` some batches makes of the room, and how often batches as they are, `real`, find its rows."""
    cached: CachedRows = placement.fill(seen, room)
    hits = sum(int(asked[ids].sum(dtype=np.int64)) for asked, ids in zip(real, cached, strict=True))
    return Split(cached.nodes.size, cached.edges.size, hits)


def best(seen: RowFrequencies, real: RowFrequencies, room: CacheCapacity) -> Split:
    """Of all splits, those of every count of nodes, each side filled by falling frequency as `seen`, the one of most hits; of several the
    one of fewest nodes. Rows of 0 bytes are in neither. O(rows log rows)."""
    nodes, edges = (_hits(*pair, size) for pair, size in ((_pair(seen, real, 0), room.node), (_pair(seen, real, 1), room.edge)))
    counts = np.arange(min(nodes.size - 1, room.total // room.node if room.node else 0) + 1)
    beside = (room.total - counts * room.node) // room.edge if room.edge else np.zeros_like(counts)
    beside = np.minimum(beside, edges.size - 1)
    found = nodes[counts] + edges[beside]
    at = int(found.argmax())
    return Split(at, int(beside[at]), int(found[at]))


def _pair(seen: RowFrequencies, real: RowFrequencies, which: int) -> tuple[Int32, Int32]:
    return seen[which], real[which]


def _hits(seen: Int32, real: Int32, size: int) -> Int64:
    """Of the first 0, 1, ... rows by falling frequency."""
    order = np.argsort(-seen, kind="stable") if size else np.empty(0, np.int64)
    return np.concatenate([[0], real[order].cumsum(dtype=np.int64)])
