"""Partitioners that assign nodes first, by METIS or at random, and then each event to the part of its source."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.snapshots.partition import metis_assignment
from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.partitioner import EmitParts, PartitionRequest
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams import draws

_NODES, _EVENTS = 0, 1  # what a key of the seed is for


def partition_by_metis(request: PartitionRequest, put: EmitParts) -> Int32:
    """Partition a stream's union graph of nodes with METIS, balanced by nodes (a `Partitioner`); an event goes with its source. With shared
    nodes (that all parts have) METIS cuts the graph of the others (MemShare §5.4), and events go as `assign_events` says.

    Each pair counts once, however often it repeats: DGL's METIS takes no weights of edges, and does not end on a graph that has them as
    parallel edges. Memory: the different pairs. Two calls may differ. Raises MachineError as `metis_assignment`.
    """
    place = np.cumsum(~request.shared, dtype=np.int64) - 1  # among the nodes that are not shared
    src, dst = edge_keys.unpack(_distinct_pairs(request))
    parts = metis_assignment(place[src], place[dst], int(np.count_nonzero(~request.shared)), request.count)
    node = np.full(request.shared.size, SHARED, np.int32)
    node[~request.shared] = parts
    return assign_events(request, node, put)


def _distinct_pairs(request: PartitionRequest) -> Int64:
    """Return the distinct pairs of nodes that meet, packed, the lower node first, without shared nodes and self-loops."""
    pairs = np.empty(0, np.int64)
    for src, dst, _ in request.blocks():
        inner = (src != dst) & ~request.shared[src] & ~request.shared[dst]
        low, high = np.minimum(src[inner], dst[inner]), np.maximum(src[inner], dst[inner])
        pairs = np.union1d(pairs, edge_keys.pack(low, high))
    return pairs


def partition_at_random(request: PartitionRequest, put: EmitParts) -> Int32:
    """Partition a stream's nodes at random, by a hash of their ids (a `Partitioner`; Zhong et al., 2023, hash partitioning); an event goes
    with its source (`assign_events`)."""
    parts = draws.draw_below(draws.derive_key(request.seed, _NODES), np.arange(request.shared.size), 0, request.count)
    return assign_events(request, np.where(request.shared, SHARED, parts).astype(np.int32), put)


def assign_events(request: PartitionRequest, node: Int32, put: EmitParts) -> Int32:
    """Assign each event of a stream whose nodes are partitioned to the part of its source, also where its ends are in two parts; where all
    parts share the source, to that of its destination; where they share both, to one at random (MemShare §5.4).

    node int32 [N]: the part of each node, or SHARED, which is returned. put: called with the parts of the events, block after block.
    """
    key, begin = draws.derive_key(request.seed, _EVENTS), 0
    for src, dst, _ in request.blocks():
        part = np.where(node[src] == SHARED, node[dst], node[src])
        between = np.flatnonzero(part == SHARED)
        part[between] = draws.draw_below(key, begin + between, 0, request.count)
        put(part)
        begin += src.size
    return node
