"""By METIS: the least cut of all pairs that meet, time aside."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.snapshots.partition import assigned
from chronoscale.batching.streams.partitioning.event_owner import follow
from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.request import Asked, Put
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.snapshots import edge_keys


def by_metis(asked: Asked, put: Put) -> Int32:
    """As `Partitioner`: METIS on the union graph, balanced by nodes; an event goes with its source. With shared nodes METIS cuts the graph
    of the others (MemShare §5.4), and events go as `follow` says.

    Each pair counts once, however often it repeats: DGL's METIS takes no weights of edges, and does not end on a graph that has them as
    parallel edges. Memory: the different pairs. Two calls may differ. Raises MachineError as `assigned`.
    """
    place = np.cumsum(~asked.shared, dtype=np.int64) - 1  # among the nodes that are not shared
    src, dst = edge_keys.unpack(_pairs(asked))
    found = assigned(place[src], place[dst], int(np.count_nonzero(~asked.shared)), asked.count)
    node = np.full(asked.shared.size, SHARED, np.int32)
    node[~asked.shared] = found
    return follow(asked, node, put)


def _pairs(asked: Asked) -> Int64:
    """Packed pairs, the lower node first, without shared nodes and self-loops."""
    kept = np.empty(0, np.int64)
    for src, dst, _ in asked.blocks():
        inner = (src != dst) & ~asked.shared[src] & ~asked.shared[dst]
        low, high = np.minimum(src[inner], dst[inner]), np.maximum(src[inner], dst[inner])
        kept = np.union1d(kept, edge_keys.pack(low, high))
    return kept
