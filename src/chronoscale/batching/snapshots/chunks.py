"""Chunks: small parts of a graph that keep their numbers through all snapshots (FlareDTDG §3.2), and how ranks share them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.batching.snapshots.layout import Layout
from chronoscale.batching.snapshots.partition import metis_partition
from chronoscale.batching.snapshots.retention import Retention
from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts
from chronoscale.batching.snapshots.survival import EpochDraws, levels, rank_of
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import UserError


@dataclass(frozen=True, eq=False)
class Chunks:
    """Chunks of a graph: small parts that stay the same through all snapshots, of which old snapshots keep fewer (FlareDTDG §3.2).
    `assignment` int32 [N] is the chunk of every node. Raises UserError for a node without one.

    METIS bisects (`cut_into_chunks`), and chunk numbers tell how: a first half of them is one side of the first cut, and so on. Consecutive
    chunks therefore make good parts for ranks, one assignment serves any number of them, and losses do not depend on it.
    """

    assignment: Int32
    count: int

    def __post_init__(self) -> None:
        if self.assignment.ndim != 1 or (self.assignment < 0).any() or (self.assignment >= self.count).any():
            raise UserError(f"chunks: expected one of 0..{self.count - 1} for every node")

    def layout(self, epoch: EpochDraws, retention: Retention, ranks: int, ordered: bool = True) -> Layout:
        """Number the nodes for an epoch of FlareDTDG's training: by the rank that owns them and by how long their chunk is kept while
        snapshots age, so that what is kept is a prefix. `ordered` False: by rank and id only. Raises UserError for fewer chunks than ranks.
        """
        if self.count < ranks:
            raise UserError(f"training.chunks: {self.count} chunks cannot be shared by {ranks} ranks; ask for {ranks} or more")
        depth = epoch.depth(self.count, retention, ranks)
        return Layout.of(self.assignment, depth, rank_of(self.count, ranks), ranks, len(levels(retention, self.count)), ordered)


def cut_into_chunks(snapshots: SnapshotSequence, count: int) -> Chunks:
    """Cut the nodes of a snapshot dataset into `count` chunks (small parts, see `Chunks`), by METIS on the union of all snapshots, by
    recursive bisection, balanced by nodes. Two calls may differ: keep what one returned.

    Raises UserError for more chunks than nodes, MachineError as `metis_partition`.
    """
    if count > snapshots.num_nodes:
        raise UserError(f"training.chunks: {count}, and dataset '{snapshots.name}' has {snapshots.num_nodes} nodes")
    return Chunks(metis_partition(snapshots, count, "recursive"), count)


@dataclass(frozen=True, slots=True, eq=False)
class BlockCounts:
    """Counts of each rank's block of every snapshot under a layout, for planners of FlareDTDG. A level is one of the shares of the chunks
    that a snapshot keeps as it ages, 0 the whole.

    rows: own nodes int64 [levels, ranks]. int64 [T, levels, ranks] each: edges, in-edges of own nodes (self-loops left out); halo, rows of
    other ranks that are read; sent, own rows that others read.
    """

    rows: Int64
    edges: Int64
    halo: Int64
    sent: Int64

    @classmethod
    def count(cls, snapshots: SnapshotSequence, layout: Layout) -> BlockCounts:
        """Count the rows, edges and remote reads of every rank in all snapshots under a layout."""
        edges, halo, sent = np.array([layout.counts(snapshot) for snapshot in snapshots]).transpose(1, 0, 2, 3)
        return cls(layout.rows, edges, halo, sent)


@dataclass(frozen=True, slots=True, eq=False)
class ExactChunking:
    """Exact counts of a snapshot dataset that is cut into chunks, for planners of FlareDTDG (a `strategies.workload.Chunking`). All counts
    are multiplied by `factor`: those of a larger graph of the same shape."""

    snapshots: SnapshotSequence
    chunks: Chunks
    factor: int = 1
    origin: ClassVar[str] = "METIS"

    def count_blocks(self, epoch: EpochDraws, decay: Retention, ranks: int) -> BlockCounts:
        """Count rows, edges and remote reads of all ranks in an epoch, exactly. decay: how many chunks snapshots of each age keep. Raises
        UserError as `Chunks.layout`."""
        counts = BlockCounts.count(self.snapshots, self.chunks.layout(epoch, decay, ranks))
        return BlockCounts(*(column * self.factor for column in (counts.rows, counts.edges, counts.halo, counts.sent)))

    def count_samples(self, sampling: NeighbourSampling, ranks: int) -> SampleCounts:
        """Count, exactly, what all ranks sample in an epoch and which nodes change ranks before it; nodes are assigned to ranks at random,
        chunks have no part in it."""
        return SampleCounts.count(self.snapshots, sampling, self.snapshots.num_nodes, ranks).times(self.factor)


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedChunking:
    """Expected counts for planners of FlareDTDG (a `strategies.workload.Chunking`) as if nodes fell into `count` chunks at random: for
    snapshot datasets that are streamed and not cut. `degrees`: of each snapshot the different out-degrees and how many nodes have each,
    int64 [n] both. All counts are multiplied by `factor`."""

    degrees: list[tuple[Int64, Int64]]
    nodes: int
    count: int
    factor: int = 1
    origin: ClassVar[str] = "expected of random chunks"

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot], count: int, factor: int = 1) -> ExpectedChunking:
        """Count the out-degrees of every snapshot in one pass, so that the counts of `count` chunks can be estimated. Raises UserError for
        more chunks than nodes."""
        degrees, nodes = [], 0
        for snapshot in snapshots:
            nodes = snapshot.num_nodes
            degrees.append(np.unique(np.bincount(snapshot.src, minlength=nodes), return_counts=True))
        if count > nodes * factor:
            raise UserError(f"training.chunks: {count}, and there are {nodes * factor} nodes")
        return cls(degrees, nodes, count, factor)

    def count_blocks(self, epoch: EpochDraws, decay: Retention, ranks: int) -> BlockCounts:
        """Estimate rows, edges and remote reads of all ranks in an epoch, as if every node fell into a random chunk. decay: how many chunks
        snapshots of each age keep.

        Of a node and each of its d out-edges a share f is retained, and a rank has 1/P of them. METIS would cut fewer edges, and retain
        more. Raises UserError as `Chunks.layout`.
        """
        chunks = Chunks(np.arange(self.count, dtype=np.int32), self.count).layout(epoch, decay, ranks)
        rows = chunks.rows * (self.nodes * self.factor) // self.count
        share, own = levels(decay, self.count) / self.count, chunks.rows / self.count
        edges, halo = np.zeros((2, len(self.degrees), *rows.shape), np.int64)
        for t, (degree, nodes) in enumerate(self.degrees):
            edges[t] = (degree * nodes).sum() * self.factor * share[:, None] * own
            read = 1 - (1 - own[..., None]) ** degree  # that one of d readers is kept, and on this rank
            halo[t] = self.factor * (nodes * (share[:, None, None] - own[..., None]) * read).sum(2)
        return BlockCounts(rows, edges, halo, halo)

    def count_samples(self, sampling: NeighbourSampling, ranks: int) -> SampleCounts:
        """Estimate what all ranks sample in an epoch and how many nodes change ranks before it. In-degrees are not known: as many edges are
        drawn as if none of a node's were left out before its fan-out is met by all, an upper estimate."""
        nodes, count = self.nodes * self.factor, len(self.degrees)
        edges, sampled, halo = (np.zeros((count, ranks), np.int64) for _ in range(3))
        for t, (degree, having) in enumerate(self.degrees):
            total = int((degree * having).sum())
            share = min(1.0, sampling.fanout * self.nodes / max(total, 1))
            edges[t], sampled[t] = total * self.factor // ranks, int(total * share) * self.factor // ranks
            halo[t] = int(self.factor * (1 - 1 / ranks) * (having * (1 - (1 - share / ranks) ** degree)).sum())
        rows = (nodes + ranks - 1 - np.arange(ranks)) // ranks
        moved = (rows * (1 - 1 / ranks)).astype(np.int64)
        return SampleCounts(rows, edges, sampled, halo, halo, moved, moved)
