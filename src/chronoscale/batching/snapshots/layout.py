"""Layout of nodes: an epoch's one renumbering, by rank and then by survival (FlareDTDG §3.3), and what ranks hold and exchange under it.

A node's depth is how many cutoffs below the whole it survives (`survival.EpochDraws.depth`); what is kept at level l are the nodes of
depth l and more. On a rank own nodes come first, the deepest first, then the remote ones that it reads, the deepest first as well: what is
kept at any level is a prefix of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chronoscale.datasets.arrays import Float32, Int32, Int64
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError


@dataclass(frozen=True, eq=False)
class Layout:
    """Numbering of a graph's nodes for one epoch of FlareDTDG's training (§3.3): by the rank that owns them, then by how long they are kept
    while snapshots age, so that what a rank keeps of an older snapshot is a prefix of its rows.

    `rank` int32 [N]: the rank that owns a node; `depth` int64 [N] in 0..levels-1: the last level at which it is kept (a level is one of the
    shares that snapshots keep as they age, 0 the whole). Unless it is `ordered`, nodes stand in order of their ids, and the retained ones
    are no prefix: without shrinking. Raises UserError for a node without a rank.
    """

    rank: Int32
    depth: Int64
    ranks: int
    levels: int
    ordered: bool = True

    def __post_init__(self) -> None:
        if self.rank.ndim != 1 or (self.rank < 0).any() or (self.rank >= self.ranks).any():
            raise UserError(f"a layout needs one rank of 0..{self.ranks - 1} for every node")

    @classmethod
    def of(cls, chunk: Int32, depth: Int64, rank: Int64, ranks: int, levels: int, ordered: bool = True) -> Layout:
        """Build a layout from the chunk of every node, int32 [N], and of every chunk its depth (the last level at which it is kept) and its
        rank, int64 [chunks] each."""
        return cls(rank[chunk].astype(np.int32), depth[chunk], ranks, levels, ordered)

    @cached_property
    def order(self) -> Int64:
        """Nodes by their new numbers, int64 [N]: by rank, then depth (falling), then id."""
        return np.lexsort((-self.depth * self.ordered, self.rank))

    @cached_property
    def place(self) -> Int64:
        """New number of every node (its position in `order`), int64 [N]."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(place))
        return place

    @cached_property
    def offset(self) -> Int64:
        """Start of each rank's nodes in `order`, int64 [ranks + 1]: order[offset[r]:offset[r+1]] are rank r's."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.rank, minlength=self.ranks))]).astype(np.int64)

    @cached_property
    def rows(self) -> Int64:
        """Number of own nodes that each rank keeps at each level, int64 [levels, ranks]."""
        return self._kept(self.depth, self.rank)

    def nodes(self, rank: int) -> Int64:
        """Return the nodes that a rank owns, those that are kept longest first: int64."""
        return self.order[self.offset[rank] : self.offset[rank + 1]]

    def counts(self, snapshot: Snapshot, halo: LayoutHalo | None = None) -> tuple[Int64, Int64, Int64]:
        """Count, for one snapshot, at each level on each rank: edges that end at its own nodes, rows of other ranks that it reads, own rows
        that others read; int64 [levels, ranks] each. `halo`: the snapshot's, where it has been found already."""
        edge = np.minimum(self.depth[snapshot.src], self.depth[snapshot.dst])
        halo = self.halo(snapshot) if halo is None else halo
        ends = ((edge, self.rank[snapshot.dst]), (halo.depth, halo.reader), (halo.depth, halo.owner))
        edges, read, sent = (self._kept(*pair) for pair in ends)
        return edges, read, sent

    def halo(self, snapshot: Snapshot) -> LayoutHalo:
        """Find which rows ranks read of each other in a snapshot, because an edge ends at one rank's node and starts at another's: each
        pair of a reading rank and a row once, by reader, then depth (falling), owner and place."""
        reader, owner = self.rank[snapshot.dst].astype(np.int64), self.rank[snapshot.src]
        cut = np.flatnonzero(reader != owner)
        depth = np.minimum(self.depth[snapshot.src[cut]], self.depth[snapshot.dst[cut]])
        key = reader[cut] * len(self.order) + self.place[snapshot.src[cut]]
        sorting = np.lexsort((-depth, key))
        pair, first = np.unique(key[sorting], return_index=True)
        depth = depth[sorting][first]  # a row is read for as long as one of its edges is kept
        reader, place = pair // len(self.order), pair % len(self.order)
        owner = self.rank[self.order[place]].astype(np.int64)
        sorting = np.lexsort((place, owner, -depth * self.ordered, reader))
        return LayoutHalo(reader[sorting], owner[sorting], place[sorting], depth[sorting])

    def block(self, csr: WeightedCSR, halo: LayoutHalo, rank: int) -> RankBlock:
        """Cut a rank's rows out of a snapshot's adjacency matrix, with columns renumbered: own nodes first, then the remote ones of `halo`.
        Entries of a row stay in the order of `csr`, which may be weighted differently than the whole snapshot's."""
        own, remote = self.nodes(rank), halo.place[halo.reader == rank]
        begin = csr.indptr[own]
        degree = csr.indptr[own + 1] - begin
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
        entry = np.repeat(begin - indptr[:-1], degree) + np.arange(indptr[-1])
        number = np.empty(len(self.order), np.int32)  # of nodes that the rank holds; of others it is not read
        number[own] = np.arange(len(own))
        number[self.order[remote]] = len(own) + np.arange(len(remote))
        return RankBlock(indptr, number[csr.indices[entry]], csr.values[entry], csr.scale[own], self.order[remote], len(own))

    def _kept(self, depth: Int64, rank: Int32 | Int64) -> Int64:
        """Count nodes of each depth and more, by rank: int64 [levels, ranks]."""
        counts = np.bincount(depth * self.ranks + rank, minlength=self.levels * self.ranks).reshape(self.levels, self.ranks)
        return np.cumsum(counts[::-1], axis=0)[::-1].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class LayoutHalo:
    """Rows of a snapshot that ranks read of each other under a layout, int64 [n] each: rank `reader` reads the node at `place` (in
    `Layout.order`) of rank `owner`, at all levels up to `depth`."""

    reader: Int64
    owner: Int64
    place: Int64
    depth: Int64

    def at(self, level: int) -> LayoutHalo:
        """Return the reads that are left at a level, where fewer nodes are kept."""
        left = self.depth >= level
        return LayoutHalo(self.reader[left], self.owner[left], self.place[left], self.depth[left])


@dataclass(frozen=True, slots=True, eq=False)
class RankBlock:
    """Block of a snapshot's adjacency matrix on one rank, [rows, rows + halo]: the rows of its own nodes; columns are own nodes, then the
    remote ones.

    indptr int64 [rows + 1], indices int32 [nnz], values float32 [nnz], scale float32 [rows] (`csr.WeightedCSR`); remote int64 [halo], the
    ids of the remote nodes.
    """

    indptr: Int64
    indices: Int32
    values: Float32
    scale: Float32
    remote: Int64
    rows: int

    def shrunk(self, rows: int, halo: int) -> RankBlock:
        """Shrink the block to the first `rows` own nodes and the first `halo` remote ones, which are what is kept of the snapshot as it
        ages; no id is looked up, since the retained nodes are a prefix of either."""
        end = self.indptr[rows]
        column = self.indices[:end]
        inside = (column < rows) | ((column >= self.rows) & (column < self.rows + halo))
        indptr = np.concatenate([[0], np.cumsum(inside)])[self.indptr[: rows + 1]]
        column = column[inside]
        column = np.where(column < self.rows, column, column - (self.rows - rows)).astype(np.int32)
        return RankBlock(indptr, column, self.values[:end][inside], self.scale[:rows], self.remote[:halo], rows)
