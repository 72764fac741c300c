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
    """Sampling of each node's in-neighbours in a snapshot, anew in every epoch (DynaGraph, FlareDTDG §2.2): `fanout` of them, uniform
    without replacement; all, where a node has no more. What is drawn follows from seed, epoch and snapshot, on all ranks alike and whatever
    their number. Raises UserError for a fan-out below 1."""

    fanout: int
    seed: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        if self.fanout < 1:
            raise UserError(f"fanout must be at least 1 neighbour a node, got {self.fanout}")

    def edge_mask(self, snapshot: Snapshot, number: int) -> EdgeMask:
        """Draw which edges of a snapshot are sampled, bool [E]. `number`: the snapshot's in its sequence."""
        degree = snapshot.in_degree()
        keys = np.random.default_rng((self.seed, SAMPLE, self.epoch, number)).random(snapshot.num_edges)
        first = np.cumsum(degree) - degree
        place = np.arange(snapshot.num_edges) - first[snapshot.dst]  # in an order that has a row's least key first
        kept = np.empty(snapshot.num_edges, np.bool_)
        kept[np.lexsort((keys, snapshot.dst))] = place < self.fanout
        return kept

    def csr(self, snapshot: Snapshot, whole: WeightedCSR, kept: EdgeMask) -> WeightedCSR:
        """Build the adjacency matrix of a snapshot's sampled edges, with weights that make its sums unbiased (Horvitz and Thompson, 1952).
        whole: the matrix of all edges; kept: which edges are sampled, bool [E] (`edge_mask`).

        Weights are the whole snapshot's, times d / k where k of a node's d in-neighbours are drawn: the expectation of a sum is the sum
        over all. The self-loop is always there, with its own weight.
        """
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
    """Return the snapshot of the sampled edges alone; kept: which ones are, bool [E] (`NeighbourSampling.edge_mask`)."""
    return Snapshot(snapshot.num_nodes, snapshot.src[kept], snapshot.dst[kept])


def assign_at_random(nodes: int, ranks: int, seed: int, number: int) -> Int32:
    """Assign `nodes` nodes to ranks at random, int32 [N], with shares as even as may be; `number`: of the assignment, mostly an epoch's,
    each of which is another (DynaGraph)."""
    place = np.random.default_rng((seed, DEAL, number)).permutation(nodes)
    return np.asarray(place * ranks // nodes, np.int32)


def random_layout(nodes: int, ranks: int, seed: int, number: int) -> Layout:
    """Number nodes by the rank that a random assignment gives them (`assign_at_random`), then by id, for an epoch of DynaGraph's
    training."""
    return Layout(assign_at_random(nodes, ranks, seed, number), np.zeros(nodes, np.int64), ranks, 1)


@dataclass(frozen=True, slots=True, eq=False)
class SampleCounts:
    """Counts of what ranks sample of every snapshot in an epoch and what they exchange, for planners of DynaGraph.

    rows: own nodes int64 [ranks]. int64 [T, ranks] each: candidates, in-edges of own nodes; edges, those of them that are sampled; halo,
    rows of other ranks that are read; sent, own rows that others read. int64 [ranks] each: arriving, leaving, nodes that a rank gets and
    gives away when the epoch's new assignment takes effect.
    """

    rows: Int64
    candidates: Int64
    edges: Int64
    halo: Int64
    sent: Int64
    arriving: Int64
    leaving: Int64

    @classmethod
    def count(cls, snapshots: Iterable[Snapshot], sampling: NeighbourSampling, nodes: int, ranks: int) -> SampleCounts:
        """Sample all snapshots as in the epoch of `sampling` and count, exactly, what each of `ranks` ranks draws, reads and sends. nodes:
        of the graph."""
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
        """Multiply all counts by `factor`: those of a larger graph of the same shape."""
        return SampleCounts(*(getattr(self, column.name) * factor for column in fields(self)))
