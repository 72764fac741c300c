"""Sampling of in-neighbours, weighted so that sums keep their expectation, and random assignment of nodes to ranks.

Both are DynaGraph's (FlareDTDG §2.2): a subgraph a snapshot and epoch, which all layers read, and a new assignment every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.layout import Layout
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError

EdgeMask = NDArray[np.bool_]
DEAL, SAMPLE = 3, 4  # what a seed is for, beside `survival.ORDER` and `SPLIT`


@dataclass(frozen=True, slots=True)
class NeighbourSampling:
    """Sampling of in-neighbours in an epoch: `fanout` of a node, uniform without replacement; all, where it has no more. What is drawn
    follows from seed, epoch and snapshot, on all ranks alike and whatever their number. Raises UserError for a fan-out below 1."""

    fanout: int
    seed: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        if self.fanout < 1:
            raise UserError(f"fanout must be at least 1 neighbour a node, got {self.fanout}")

    def edge_mask(self, snapshot: Snapshot, number: int) -> EdgeMask:
        """Draw the edges that are kept, bool [E]. `number`: of the snapshot in its sequence."""
        degree = snapshot.in_degree()
        keys = np.random.default_rng((self.seed, SAMPLE, self.epoch, number)).random(snapshot.num_edges)
        first = np.cumsum(degree) - degree
        place = np.arange(snapshot.num_edges) - first[snapshot.dst]  # in an order that has a row's least key first
        kept = np.empty(snapshot.num_edges, np.bool_)
        kept[np.lexsort((keys, snapshot.dst))] = place < self.fanout
        return kept

    def csr(self, snapshot: Snapshot, whole: WeightedCSR, kept: EdgeMask) -> WeightedCSR:
        """Build the adjacency of the edges that are `kept`, with the weights of the whole snapshot, those of a node with d in-neighbours of
        which k are drawn times d / k (Horvitz and Thompson, 1952): the expectation of a sum is the sum over all. The self-loop is always
        there, with its own weight."""
        degree = snapshot.in_degree()
        sampled = np.minimum(degree, self.fanout)
        entry = np.ones(len(whole.indices), np.bool_)
        edge = np.arange(snapshot.num_edges) + snapshot.dst + 1  # where an edge lies: a self-loop before the edges of each row
        entry[edge] = kept
        values = whole.values.copy()
        values[edge] *= (degree / np.maximum(sampled, 1)).astype(np.float32)[snapshot.dst]
        indptr = np.concatenate([[0], np.cumsum(sampled + np.int64(1))])
        return WeightedCSR(indptr, whole.indices[entry], values[entry], whole.scale)


def sampled_subgraph(snapshot: Snapshot, kept: EdgeMask) -> Snapshot:
    """Return the subgraph of the edges that are `kept`."""
    return Snapshot(snapshot.num_nodes, snapshot.src[kept], snapshot.dst[kept])


def assign_at_random(nodes: int, ranks: int, seed: int, number: int) -> Int32:
    """Assign nodes to ranks at random, anew for each `number`, with shares as even as may be: int32 [N]."""
    place = np.random.default_rng((seed, DEAL, number)).permutation(nodes)
    return np.asarray(place * ranks // nodes, np.int32)


def random_layout(nodes: int, ranks: int, seed: int, number: int) -> Layout:
    """Number nodes by the rank that `assign_at_random` gives them, then by id."""
    return Layout(assign_at_random(nodes, ranks, seed, number), np.zeros(nodes, np.int64), ranks, 1)


@dataclass(frozen=True, slots=True, eq=False)
class SampleCounts:
    """Counts of ranks' samples of every snapshot: own rows int64 [ranks]; in-edges that they draw from, those that are drawn, remote rows
    read, own rows that others read, int64 [T, ranks]; and nodes that the epoch's deal brings to a rank and takes from it, int64 [ranks]."""

    rows: Int64
    candidates: Int64
    edges: Int64
    halo: Int64
    sent: Int64
    arriving: Int64
    leaving: Int64

    @classmethod
    def count(cls, snapshots: Iterable[Snapshot], sampling: NeighbourSampling, nodes: int, ranks: int) -> SampleCounts:
        """Count the samples of the sampling's epoch, exactly."""
        layout, before = (random_layout(nodes, ranks, sampling.seed, sampling.epoch + i) for i in (1, 0))
        candidates, counts = [], []
        for number, snapshot in enumerate(snapshots):
            candidates.append(np.bincount(layout.rank[snapshot.dst], minlength=ranks))
            counts.append([column[0] for column in layout.counts(sampled_subgraph(snapshot, sampling.edge_mask(snapshot, number)))])
        edges, halo, sent = np.array(counts, np.int64).transpose(1, 0, 2)
        moves = before.rank != layout.rank
        arriving, leaving = (np.bincount(assignment.rank[moves], minlength=ranks) for assignment in (layout, before))
        return cls(layout.rows[0], np.array(candidates, np.int64), edges, halo, sent, arriving, leaving)

    def times(self, factor: int) -> SampleCounts:
        """Multiply all counts by `factor`: a larger graph of the same shape."""
        return SampleCounts(*(getattr(self, column.name) * factor for column in fields(self)))
