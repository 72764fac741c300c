"""Difference maps: what changed between two snapshots, and the increment of aggregation that follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool, Float64, Int8, Int32, Int64, require, require_ids
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.snapshots.csr import Count, DeltaCSR, Variant, check_variant, inverse_root
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceMap:
    """Difference map (dmap) from a snapshot to the next: the edges that were added and removed (REAL §4.1).

    added_src, added_dst int32 [A] and removed_src, removed_dst int32 [D], each sorted by (dst, src). nodes int32 [K]: distinct endpoints of
    changed edges, ascending, with their degrees on both sides, int32 [K] each. A map is about topology: edge multiplicities are not in it.
    Raises UserError for arrays that do not fit.
    """

    num_nodes: int
    added_src: Int32
    added_dst: Int32
    removed_src: Int32
    removed_dst: Int32
    nodes: Int32
    in_before: Int32
    in_after: Int32
    out_before: Int32
    out_after: Int32

    def __post_init__(self) -> None:
        for field in ("added_src", "removed_src", "nodes"):
            require(getattr(self, field), f"DifferenceMap.{field}", "int32", (None,))
            require_ids(getattr(self, field), f"DifferenceMap.{field}", self.num_nodes)
        require(self.added_dst, "DifferenceMap.added_dst", "int32", (self.added_src.size,))
        require(self.removed_dst, "DifferenceMap.removed_dst", "int32", (self.removed_src.size,))
        for field in ("in_before", "in_after", "out_before", "out_after"):
            require(getattr(self, field), f"DifferenceMap.{field}", "int32", (self.nodes.size,))
        if not (edge_keys.ascend(self.added_keys()) and edge_keys.ascend(self.removed_keys())):
            raise UserError("DifferenceMap: expected edges sorted by (dst, src) without duplicates")

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> DifferenceMap:
        """Compare two snapshots of the same nodes, in linear time. Raises UserError if their numbers of nodes differ."""
        if before.num_nodes != after.num_nodes:
            raise UserError(f"snapshots of {before.num_nodes} and {after.num_nodes} nodes have no difference map")
        added, removed = edge_keys.difference(before.keys(), after.keys())
        (added_src, added_dst), (removed_src, removed_dst) = edge_keys.unpack(added), edge_keys.unpack(removed)
        touched = np.zeros(before.num_nodes, dtype=np.bool_)
        touched[added_src] = touched[added_dst] = touched[removed_src] = touched[removed_dst] = True
        nodes = np.flatnonzero(touched)
        degrees = (d[nodes] for d in (before.in_degree(), after.in_degree(), before.out_degree(), after.out_degree()))
        return cls(before.num_nodes, added_src, added_dst, removed_src, removed_dst, nodes.astype(np.int32), *degrees)

    @property
    def num_changed_edges(self) -> int:
        return self.added_src.size + self.removed_src.size

    @property
    def num_changed_nodes(self) -> int:
        """Number of distinct endpoints of changed edges."""
        return self.nodes.size

    def added_keys(self) -> Int64:
        """Return the added edges as keys (`edge_keys`: one int64 an edge), ascending."""
        return edge_keys.pack(self.added_src, self.added_dst)

    def removed_keys(self) -> Int64:
        """Return the removed edges as keys (`edge_keys`: one int64 an edge), ascending."""
        return edge_keys.pack(self.removed_src, self.removed_dst)

    def apply(self, before: Snapshot) -> Snapshot:
        """Apply the map to the earlier snapshot: return the later one, without weights. Raises UserError if the map does not belong to
        `before`."""
        keys = before.keys()
        removed = self.removed_keys()
        added = self.added_keys()
        fits = edge_keys.contains(keys, removed).all() and not edge_keys.contains(keys, added).any()
        if before.num_nodes != self.num_nodes or not fits:
            raise UserError("this difference map does not belong to this snapshot")
        remaining = keys[~edge_keys.contains(removed, keys)]
        return Snapshot.from_keys(self.num_nodes, edge_keys.merge(remaining, added))


@dataclass(frozen=True, slots=True, eq=False)
class EdgeMap:
    """Edges that changed between two snapshots, by destination, as a device reads them to update its copy of the topology (REAL §4.1,
    §4.3): +1 for added edges, -1 for removed ones.

    rows int32 [R] (distinct destinations of changed edges, ascending), indptr int64 [R+1], indices int32 [changed] (sources, ascending in a
    row), sign int8 [changed]. Built by `edge_map`.
    """

    num_nodes: int
    rows: Int32
    indptr: Int64
    indices: Int32
    sign: Int8

    def __post_init__(self) -> None:
        for field in ("rows", "indices"):
            require(getattr(self, field), f"EdgeMap.{field}", "int32", (None,))
            require_ids(getattr(self, field), f"EdgeMap.{field}", self.num_nodes)
        require(self.indptr, "EdgeMap.indptr", "int64", (self.rows.size + 1,))
        require(self.sign, "EdgeMap.sign", "int8", (self.indices.size,))
        if self.indptr[0] != 0 or self.indptr[-1] != self.indices.size or (self.indptr[1:] <= self.indptr[:-1]).any():
            raise UserError(f"EdgeMap.indptr: expected to rise from 0 to {self.indices.size} without empty rows")
        if not edge_keys.ascend(edge_keys.pack(self.indices, np.repeat(self.rows, np.diff(self.indptr)))):
            raise UserError("EdgeMap: expected edges sorted by (dst, src) without duplicates")
        if (np.abs(self.sign) != 1).any():
            raise UserError("EdgeMap.sign: expected +1 or -1")

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: what copying the map to the device moves."""
        return self.rows.nbytes + self.indptr.nbytes + self.indices.nbytes + self.sign.nbytes

    @staticmethod
    def nbytes_of(rows: Count, edges: Count) -> Count:
        """Compute `nbytes` from counts alone, for planners: `rows`, distinct destinations of changed edges; `edges`, changed edges."""
        return 4 * rows + 8 * (rows + 1) + 5 * edges


def edge_map(before: Snapshot, after: Snapshot) -> EdgeMap:
    """Find the edges that changed from one snapshot to another of the same nodes, in linear time. Raises UserError if their numbers of
    nodes differ."""
    if before.num_nodes != after.num_nodes:
        raise UserError(f"snapshots of {before.num_nodes} and {after.num_nodes} nodes have no difference map")
    added, removed = edge_keys.difference(before.keys(), after.keys())
    keys = np.concatenate([added, removed])
    order = np.argsort(keys, kind="stable")  # two ascending runs
    src, dst = edge_keys.unpack(keys[order])
    first = np.flatnonzero(edge_keys.first_of_run(dst))
    sign = np.where(order < added.size, 1, -1).astype(np.int8)
    return EdgeMap(before.num_nodes, dst[first], np.append(first, dst.size), src, sign)


def delta_csr(before: Snapshot, after: Snapshot, variant: Variant = "exact") -> DeltaCSR:
    """Compute the increment of aggregation from snapshot `before` to `after`: what to add to the sums S (see `WeightedCSR`) instead of
    computing them anew.

    exact: added edges (+c_t), removed edges (-c_{t-1}), and, for every node whose out-degree changed, its remaining out-edges and its
    self-loop (c_t - c_{t-1}): S_t = S_{t-1} + delta @ X holds exactly. A row that this would give at least as many entries as it has in
    `after` is fresh: it holds those (c_t). An increment thus never costs more than the full rows. as-published (REAL eq. 3-4): changed
    edges only, +c_t[u] r_t[v] and -c_{t-1}[u] r_{t-1}[v]; remaining edges keep their old weights. Raises UserError for an unknown variant
    or snapshots of different numbers of nodes.
    """
    check_variant(variant)
    change = DifferenceMap.between(before, after)
    out_before, out_after = before.out_degree(), after.out_degree()
    c0, c1 = inverse_root(out_before), inverse_root(out_after)
    r0, r1 = inverse_root(before.in_degree()), inverse_root(after.in_degree())
    if variant == "as-published":
        src = np.concatenate([change.added_src, change.removed_src])
        dst = np.concatenate([change.added_dst, change.removed_dst])
        added = c1[change.added_src] * r1[change.added_dst]
        removed = -c0[change.removed_src] * r0[change.removed_dst]
        return _rows(src, dst, np.concatenate([added, removed]), np.zeros(r1.size, np.bool_), np.ones_like(r1))
    reweighted = out_before != out_after
    kept_edges = np.flatnonzero(reweighted[after.src])
    kept_edges = kept_edges[~edge_keys.contains(change.added_keys(), edge_keys.pack(after.src[kept_edges], after.dst[kept_edges]))]
    nodes = np.flatnonzero(reweighted).astype(np.int32)
    src = np.concatenate([change.added_src, change.removed_src, after.src[kept_edges], nodes])
    dst = np.concatenate([change.added_dst, change.removed_dst, after.dst[kept_edges], nodes])
    step = c1 - c0
    values = np.concatenate([c1[change.added_src], -c0[change.removed_src], step[after.src[kept_edges]], step[nodes]])
    entries = np.bincount(dst, minlength=r1.size)
    fresh = (entries > 0) & (entries >= after.in_degree() + 1)
    partial = np.flatnonzero(~fresh[dst])
    whole = np.flatnonzero(fresh[after.dst])
    loops = np.flatnonzero(fresh).astype(np.int32)
    src = np.concatenate([src[partial], after.src[whole], loops])
    dst = np.concatenate([dst[partial], after.dst[whole], loops])
    return _rows(src, dst, np.concatenate([values[partial], c1[after.src[whole]], c1[loops]]), fresh, r1)


def _rows(src: Int32, dst: Int32, values: Float64, fresh: Bool, scale: Float64) -> DeltaCSR:
    keys = edge_keys.pack(src, dst)
    order = np.argsort(keys, kind="stable")
    _, row_of = edge_keys.unpack(keys[order])
    rows, first = np.unique(row_of, return_index=True)
    indptr = np.append(first, row_of.size).astype(np.int64)
    return DeltaCSR(rows, fresh[rows].astype(np.uint8), indptr, src[order], values[order].astype(np.float32), scale.astype(np.float32))
