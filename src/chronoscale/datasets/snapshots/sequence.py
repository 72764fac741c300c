"""Containers of discrete-time dynamic graphs: one snapshot, and a sequence of them in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from chronoscale.datasets.account import Account
from chronoscale.datasets.arrays import Float32, Int32, Int64, Numbers, require, require_finite, require_ids, require_num_nodes
from chronoscale.datasets.node_names import Names, require_names
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.snapshots.csr import Variant, WeightedCSR
from chronoscale.errors import UserError

MAX_CLASSES = 1 << 16  # of nodes: a model puts out a number for each
_BLOCK = 1 << 22  # edges checked at a time: a memory-mapped sequence is read once and never held


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Snapshot, one graph of a dynamic graph's sequence: edges src -> dst over the ids 0..num_nodes-1, sorted by (dst, src), no duplicates.

    src, dst int32 [E]; weight float32 [E] or None (an edge's multiplicity in the period; GCN weights do not use it). Raises UserError if
    ids are out of range, edges unsorted or repeated, or weights not finite.
    """

    num_nodes: int
    src: Int32
    dst: Int32
    weight: Float32 | None = None

    def __post_init__(self) -> None:
        require_num_nodes(self.num_nodes)
        ends = np.array([0, self.src.size], dtype=np.int64)
        _check_edges("Snapshot", self.num_nodes, ends, self.src, self.dst, self.weight)

    @classmethod
    def from_edges(cls, num_nodes: int, src: Numbers, dst: Numbers, weight: Numbers | None = None) -> Snapshot:
        """Build a snapshot from edges [E] in any order, repeated or not: sort them and merge duplicates, summing their weights.

        Raises UserError for ids outside 0..num_nodes-1 and columns of different lengths.
        """
        _check_lengths(src, dst, weight)
        require_ids(src, "src", num_nodes)
        require_ids(dst, "dst", num_nodes)
        keys, merged = edge_keys.unique(edge_keys.pack(src, dst), None if weight is None else weight.astype(np.float32))
        return cls(num_nodes, *edge_keys.unpack(keys), merged)

    @classmethod
    def from_keys(cls, num_nodes: int, keys: Int64) -> Snapshot:
        """Build a snapshot without weights from ascending keys of edges, int64 [E] (see `edge_keys`)."""
        return cls(num_nodes, *edge_keys.unpack(keys))

    @property
    def num_edges(self) -> int:
        return self.src.size

    @property
    def num_active(self) -> int:
        """Number of nodes with at least one edge in this snapshot."""
        active = np.zeros(self.num_nodes, dtype=np.bool_)
        active[self.src] = active[self.dst] = True
        return int(np.count_nonzero(active))

    def keys(self) -> Int64:
        """Return the edges as keys (`edge_keys`: one int64 an edge), ascending: int64 [E]."""
        return edge_keys.pack(self.src, self.dst)

    def in_degree(self) -> Int32:
        """Return the number of edges that end at each node: int32 [N]."""
        return np.bincount(self.dst, minlength=self.num_nodes).astype(np.int32)

    def out_degree(self) -> Int32:
        """Return the number of edges that start at each node: int32 [N]."""
        return np.bincount(self.src, minlength=self.num_nodes).astype(np.int32)

    def csr(self, variant: Variant = "exact") -> WeightedCSR:
        """Build the adjacency matrix A + I of this snapshot with GCN weights (see `WeightedCSR`)."""
        return WeightedCSR.of_edges(self.num_nodes, self.src, self.dst, variant)

    def without_self_edges(self) -> Snapshot:
        """Return the snapshot without edges from a node to itself: A + I adds one of each anyway."""
        proper = self.src != self.dst
        return (
            self
            if proper.all()
            else Snapshot(self.num_nodes, self.src[proper], self.dst[proper], None if self.weight is None else self.weight[proper])
        )


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotSequence:
    """Sequence of T snapshots over the same nodes, a dataset of the family snapshots (a discrete-time dynamic graph); snapshot t is the
    edges ptr[t]:ptr[t+1].

    ptr int64 [T+1]; src, dst int32 [E]; weight float32 [E] or None; labels int64 [T] or None (when each snapshot starts, in the source's
    own unit); features float32 [N, F] or None; node_ids int64 [N] or None (ids in the source); classes int32 [N] or None (of nodes, from 0;
    -1: unlabelled); node_names [N], text, or None (what the source calls its nodes). account: how it was read. Arrays may be memory-mapped:
    an item is a view. Raises UserError where a snapshot would.
    """

    num_nodes: int
    ptr: Int64
    src: Int32
    dst: Int32
    weight: Float32 | None = None
    labels: Int64 | None = None
    features: Float32 | None = None
    node_ids: Int64 | None = None
    name: str = ""
    account: Account = field(default_factory=dict)
    classes: Int32 | None = None
    node_names: Names | None = None

    def __post_init__(self) -> None:
        require(self.ptr, "SnapshotSequence.ptr", "int64", (None,))
        require_num_nodes(self.num_nodes)
        require(self.labels, "SnapshotSequence.labels", "int64", (len(self),))
        require(self.features, "SnapshotSequence.features", "float32", (self.num_nodes, None))
        require(self.node_ids, "SnapshotSequence.node_ids", "int64", (self.num_nodes,))
        _check_edges("SnapshotSequence", self.num_nodes, self.ptr, self.src, self.dst, self.weight)
        require_finite(self.features, "SnapshotSequence.features")
        require_names(self.node_names, "SnapshotSequence.node_names", self.num_nodes)
        require(self.classes, "SnapshotSequence.classes", "int32", (self.num_nodes,))
        if self.classes is not None:
            require_classes(self.classes, "SnapshotSequence.classes")

    @classmethod
    def from_snapshots(
        cls, snapshots: Iterable[Snapshot], name: str = "", labels: Int64 | None = None, node_ids: Int64 | None = None
    ) -> SnapshotSequence:
        """Build a sequence from snapshots of the same nodes. Raises UserError if there is none, or they differ in nodes or in having
        weights."""
        items = list(snapshots)
        if not items:
            raise UserError("a snapshot sequence needs at least one snapshot")
        nodes, weighted = items[0].num_nodes, items[0].weight is not None
        if any(s.num_nodes != nodes or (s.weight is not None) != weighted for s in items):
            raise UserError("the snapshots of a sequence must share num_nodes and all have weights or none")
        ptr = np.zeros(len(items) + 1, dtype=np.int64)
        np.cumsum([s.num_edges for s in items], out=ptr[1:])
        src, dst = np.concatenate([s.src for s in items]), np.concatenate([s.dst for s in items])
        weight = np.concatenate([s.weight for s in items if s.weight is not None]) if weighted else None
        return cls(nodes, ptr, src, dst, weight, labels, node_ids=node_ids, name=name)

    @classmethod
    def from_edges(
        cls,
        num_nodes: int,
        ptr: Int64,
        src: Numbers,
        dst: Numbers,
        weight: Numbers | None = None,
        name: str = "",
        labels: Int64 | None = None,
        node_ids: Int64 | None = None,
    ) -> SnapshotSequence:
        """Build a sequence from edges [E] grouped by snapshot (snapshot t: ptr[t]:ptr[t+1], ptr int64 [T+1]) but neither sorted nor unique
        inside one; weights of duplicates add."""
        _check_lengths(src, dst, weight)
        _check_ptr("SnapshotSequence", ptr, src.size)
        parts = [slice(a, b) for a, b in pairwise(ptr.tolist())]
        snapshots = (Snapshot.from_edges(num_nodes, src[p], dst[p], None if weight is None else weight[p]) for p in parts)
        return cls.from_snapshots(snapshots, name, labels, node_ids)

    def __len__(self) -> int:
        return self.ptr.size - 1

    def __getitem__(self, t: int) -> Snapshot:
        if not -len(self) <= t < len(self):
            raise IndexError(f"snapshot {t} of {len(self)}")
        a, b = self.ptr[t % len(self)], self.ptr[t % len(self) + 1]
        return Snapshot(self.num_nodes, self.src[a:b], self.dst[a:b], None if self.weight is None else self.weight[a:b])

    def __iter__(self) -> Iterator[Snapshot]:
        return (self[t] for t in range(len(self)))

    @property
    def num_edges(self) -> int:
        """Number of edges of all snapshots together."""
        return self.src.size

    @property
    def num_classes(self) -> int:
        """Number of classes of the nodes: one more than the highest; 0 where none is labelled."""
        return 0 if self.classes is None else int(self.classes.max(initial=-1)) + 1

    def without_self_edges(self) -> SnapshotSequence:
        """Return the sequence without edges from a node to itself (see `Snapshot.without_self_edges`)."""
        proper = self.src != self.dst
        if proper.all():
            return self
        ptr = np.concatenate([[0], np.cumsum(proper)])[self.ptr]
        weight = None if self.weight is None else self.weight[proper]
        return replace(self, ptr=ptr, src=self.src[proper], dst=self.dst[proper], weight=weight)

    def head(self, count: int) -> SnapshotSequence:
        """Return the first `count` snapshots as a sequence (all, when there are fewer): a view."""
        ptr = self.ptr[: count + 1]
        labels = None if self.labels is None else self.labels[:count]
        weight = None if self.weight is None else self.weight[: ptr[-1]]
        return replace(self, ptr=ptr, src=self.src[: ptr[-1]], dst=self.dst[: ptr[-1]], weight=weight, labels=labels)

    def window(self, k: int) -> SnapshotSequence:
        """Return the sequence of the graphs that a sliding window of `k` snapshots sees: snapshot t becomes the union of t-k+1..t (the
        first k-1 unite what there is); weights add.

        k at least len(self) gives the cumulative graph. Raises UserError unless k is positive.
        """
        if k < 1:
            raise UserError(f"window: expected at least 1 snapshot, got {k}")
        windows = SnapshotSequence.from_snapshots(self._windows(k), self.name, self.labels, self.node_ids)
        return replace(windows, features=self.features, classes=self.classes, node_names=self.node_names)

    def _windows(self, k: int) -> Iterator[Snapshot]:
        last: Snapshot | None = None
        for t, new in enumerate(self):
            if last is None:
                last = new
            elif t < k:  # nothing leaves yet: merge the new snapshot into the union
                weight = None if last.weight is None or new.weight is None else np.concatenate([last.weight, new.weight])
                last = Snapshot.from_edges(self.num_nodes, np.concatenate([last.src, new.src]), np.concatenate([last.dst, new.dst]), weight)
            else:
                part = slice(self.ptr[t - k + 1], self.ptr[t + 1])
                weight = None if self.weight is None else self.weight[part]
                last = Snapshot.from_edges(self.num_nodes, self.src[part], self.dst[part], weight)
            yield last


def require_classes(classes: Numbers, name: str) -> None:
    """Check that the classes of a dataset's nodes are -1 (unlabelled) or lie in 0..MAX_CLASSES - 1. name: what the error calls the array.
    Raises UserError."""
    if (wrong := np.flatnonzero((classes < -1) | (classes >= MAX_CLASSES))).size:
        raise UserError(f"{name}[{wrong[0]}]: expected -1 (unlabelled) or 0..{MAX_CLASSES - 1}, got {classes[wrong[0]]}")


def _check_lengths(src: Numbers, dst: Numbers, weight: Numbers | None) -> None:
    shapes = [array.shape for array in (src, dst, weight) if array is not None]
    if src.ndim != 1 or len(set(shapes)) != 1:
        raise UserError(f"src, dst and weight: expected columns of one length, got {', '.join(map(str, shapes))}")


def _check_ptr(name: str, ptr: Int64, edges: int) -> None:
    require(ptr, f"{name}.ptr", "int64", (None,))
    if ptr.size < 2 or ptr[0] != 0 or ptr[-1] != edges or (ptr[1:] < ptr[:-1]).any():
        raise UserError(f"{name}.ptr: expected to rise from 0 to the {edges} edges, with at least one snapshot")


def _check_edges(name: str, num_nodes: int, ptr: Int64, src: Int32, dst: Int32, weight: Float32 | None) -> None:
    require(src, f"{name}.src", "int32", (None,))
    require(dst, f"{name}.dst", "int32", (src.size,))
    require(weight, f"{name}.weight", "float32", (src.size,))
    _check_ptr(name, ptr, src.size)
    for start in range(0, src.size, _BLOCK):
        block = slice(start, min(start + _BLOCK + 1, src.size))  # one edge more: the pair across the boundary
        require_ids(src[block], f"{name}.src", num_nodes)
        require_ids(dst[block], f"{name}.dst", num_nodes)
        keys = edge_keys.pack(src[block], dst[block])
        falls = np.flatnonzero(keys[1:] <= keys[:-1]) + start + 1
        if falls.size and (wrong := falls[~np.isin(falls, ptr)]).size:
            raise UserError(f"{name}: edge {wrong[0]} is not after edge {wrong[0] - 1} in the order (dst, src) without duplicates")
        require_finite(None if weight is None else weight[block], f"{name}.weight")
