"""Statistics of a snapshot sequence: the counts a snapshot that planning needs, streamed with two snapshots in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import Bool, Int64, require, require_num_nodes
from chronoscale.datasets.atomic import atomic_file
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.snapshots.lasting import TABLES, LastingRows, RunCounter
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotStatistics:
    """Counts of T snapshots, int64 [T] each, all that planners need to know of the dataset; what compares with the snapshot before is 0 at
    t = 0.

    nodes: with at least one incident edge. edges. changed_nodes: distinct endpoints of changed edges. changed_edges = added + removed.
    touched_rows, effective_edges: rows and entries of `delta_csr(variant="exact")`, that is, changed edges and everything that their degree
    changes re-weight, a row at most whole. map_rows: distinct destinations of changed edges, the rows of `edge_map`. num_nodes: of the
    dataset. lasting: rows that stay as they are in several snapshots; None: not counted.
    """

    family: ClassVar[str] = "snapshots"
    nodes: Int64
    edges: Int64
    changed_nodes: Int64
    changed_edges: Int64
    added: Int64
    removed: Int64
    touched_rows: Int64
    effective_edges: Int64
    map_rows: Int64
    num_nodes: int
    lasting: LastingRows | None = None

    def __post_init__(self) -> None:
        require_num_nodes(self.num_nodes)
        if self.lasting is not None and len(self.lasting.idle) != self.nodes.size:
            raise UserError(f"SnapshotStatistics.lasting: counts of {len(self.lasting.idle)} snapshots, not {self.nodes.size}")
        for name in COLUMNS:
            column: Int64 = getattr(self, name)
            require(column, f"SnapshotStatistics.{name}", "int64", (self.nodes.size,))
            if (column < 0).any():
                raise UserError(f"SnapshotStatistics.{name}: negative count")

    def __len__(self) -> int:
        return self.nodes.size

    def scaled(self, factor: int) -> SnapshotStatistics:
        """Return every count times `factor`: the counts of a larger graph that evolves alike, for planning and simulation. Raises UserError
        below 1."""
        if factor < 1:
            raise UserError(f"scale: expected at least 1, got {factor}")
        lasting = None if self.lasting is None else self.lasting.scaled(factor)
        return SnapshotStatistics(
            **{name: getattr(self, name) * factor for name in COLUMNS}, num_nodes=self.num_nodes * factor, lasting=lasting
        )

    def head(self, count: int) -> SnapshotStatistics:
        """Return the counts of the first `count` snapshots."""
        lasting = None if self.lasting is None else self.lasting.head(count)
        return replace(self, **{name: getattr(self, name)[:count] for name in COLUMNS}, lasting=lasting)

    def save(self, path: str | Path) -> None:
        """Write the counts to one .npz file, whole or not at all."""
        tables = {} if self.lasting is None else {_key(name): getattr(self.lasting, name) for name in TABLES}
        with atomic_file(Path(path)) as file:
            np.savez_compressed(file, num_nodes=np.int64(self.num_nodes), **{name: getattr(self, name) for name in COLUMNS}, **tables)

    @classmethod
    def load(cls, path: str | Path) -> SnapshotStatistics:
        """Load the counts that `save` wrote. Raises UserError naming a file that is missing, truncated or something else."""
        arrays = read_archive(path)
        tables = {_key(name): name for name in TABLES}
        if arrays.keys() not in ({*COLUMNS, "num_nodes"}, {*COLUMNS, "num_nodes", *tables}):
            raise UserError(f"{path}: expected the keys num_nodes, {', '.join(COLUMNS)}, and all or none of {', '.join(tables)}")
        lasting = LastingRows(**{name: arrays[key] for key, name in tables.items()}) if tables.keys() <= arrays.keys() else None
        return cls(**{name: arrays[name] for name in COLUMNS}, num_nodes=int(arrays["num_nodes"]), lasting=lasting)


COLUMNS = tuple(f.name for f in fields(SnapshotStatistics) if f.name not in ("num_nodes", "lasting"))


def _key(table: str) -> str:
    """Return under which name a table of lasting rows is saved."""
    return f"lasting_{table}"


def statistics_of(snapshots: Iterable[Snapshot]) -> SnapshotStatistics:
    """Count nodes, edges and changes of every snapshot of a dataset, for planners, in one pass with two snapshots in memory; a step costs
    O(N + E), and no CSR is built. Raises UserError if there is no snapshot or their numbers of nodes differ."""
    counts: list[tuple[int, ...]] = []
    before: _Graph | None = None
    weighted = listed = idle = RunCounter(0, True)
    for snapshot in snapshots:
        after = _Graph.of(snapshot)
        if before is not None and before.snapshot.num_nodes != snapshot.num_nodes:
            raise UserError(f"snapshot {len(counts)} has {snapshot.num_nodes} nodes, the one before {before.snapshot.num_nodes}")
        active = after.out_degree > 0
        active[snapshot.dst] = True
        if before is None:
            weighted, listed, idle = (RunCounter(snapshot.num_nodes, changes) for changes in (True, True, False))
        change = _Change((0,) * 7, *np.zeros((2, snapshot.num_nodes), np.bool_)) if before is None else _changes(before, after)
        counts.append((int(active.sum()), snapshot.num_edges, *change.counts))
        for counter, hit in ((weighted, change.touched), (listed, change.mapped), (idle, active)):
            counter.add(hit)
        before = after
    if before is None:
        raise UserError("statistics need at least one snapshot")
    table = np.array(counts, dtype=np.int64).T.copy()
    lasting = LastingRows(weighted.table(), listed.table(), idle.table())
    return SnapshotStatistics(**dict(zip(COLUMNS, table, strict=True)), num_nodes=before.snapshot.num_nodes, lasting=lasting)


def changed_rows(before: Snapshot, after: Snapshot, listed: bool) -> Bool:
    """Return which rows do not stay as they are from a snapshot to the next, as `LastingRows` counts them; bool [N].

    listed: whose neighbours change; else also those whose weights do.
    """
    change = _changes(*(_Graph.of(snapshot) for snapshot in (before, after)))
    return change.mapped if listed else change.touched


class _Graph(NamedTuple):
    snapshot: Snapshot
    keys: Int64
    out_degree: Int64

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Graph:
        return cls(snapshot, snapshot.keys(), np.bincount(snapshot.src, minlength=snapshot.num_nodes))


class _Change(NamedTuple):
    """Counts of a change as in `SnapshotStatistics`, from `changed_nodes` on, and bool [N] which rows of the aggregation it touches, and
    into which nodes an edge changed."""

    counts: tuple[int, ...]
    touched: Bool
    mapped: Bool


def _changes(before: _Graph, after: _Graph) -> _Change:
    added, removed = edge_keys.difference(before.keys, after.keys)
    added_src, added_dst = edge_keys.unpack(added)
    removed_src, removed_dst = edge_keys.unpack(removed)
    changed = np.zeros(after.out_degree.size, dtype=np.bool_)
    changed[added_src] = changed[added_dst] = changed[removed_src] = changed[removed_dst] = True

    reweighted = before.out_degree != after.out_degree
    affected = [after.snapshot.dst[reweighted[after.snapshot.src]], added_dst[~reweighted[added_src]], removed_dst]
    entries = reweighted + np.bincount(np.concatenate(affected), minlength=reweighted.size)  # self-loops, then edges, of each row
    whole = np.bincount(after.snapshot.dst, minlength=reweighted.size) + 1
    effective = int(np.minimum(entries, whole).sum())
    mapped, touched = np.zeros(reweighted.size, np.bool_), entries > 0
    mapped[added_dst] = mapped[removed_dst] = True
    changes = (added.size + removed.size, added.size, removed.size)
    counts = (int(changed.sum()), *changes, int(touched.sum()), effective, int(mapped.sum()))
    return _Change(counts, touched, mapped)
