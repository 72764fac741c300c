"""Rows that stay as they are from snapshot to snapshot, against comparing whole adjacencies."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from chronoscale.datasets.snapshots.lasting import SPAN, TABLES, LastingRows
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError


def _snapshots(seed: int, nodes: int, count: int) -> list[Snapshot]:
    """Snapshots that lose and regain edges, with a hub and nodes that never have one."""
    draw = np.random.default_rng(seed)
    pool = np.unique(draw.integers(0, nodes - 2, (3 * nodes, 2)), axis=0)
    pool = np.concatenate([pool, np.stack([np.zeros(nodes - 3, int), np.arange(1, nodes - 2)], 1)])
    pool = np.unique(pool[pool[:, 0] != pool[:, 1]], axis=0)
    present = draw.random(len(pool)) < 0.5
    snapshots = []
    for _ in range(count):
        present ^= draw.random(len(pool)) < 0.02
        src, dst = pool[present].T.astype(np.int32)
        snapshots.append(Snapshot.from_edges(nodes, src, dst))
    return snapshots


def _rows(snapshot: Snapshot) -> list[list[tuple[object, ...]]]:
    """Of each node: sources with their weights and scale; sources alone; all edges."""
    csr = snapshot.csr("exact")
    weighted, listed, edges = [], [], []
    for node in range(snapshot.num_nodes):
        own = slice(int(csr.indptr[node]), int(csr.indptr[node + 1]))
        sources = tuple(csr.indices[own].tolist())
        weighted.append((sources, tuple(csr.values[own].tolist()), float(csr.scale[node])))
        listed.append(sources)
        edges.append((int((snapshot.src == node).sum() + (snapshot.dst == node).sum()),))
    return [weighted, listed, edges]


@pytest.mark.parametrize(("seed", "nodes", "count"), [(0, 12, 9), (1, 30, 70), (2, 8, 1)])
def test_rows_that_last_are_those_whose_adjacency_does(seed: int, nodes: int, count: int) -> None:
    snapshots = _snapshots(seed, nodes, count)
    found = statistics_of(snapshots).lasting
    assert found is not None
    rows = [_rows(snapshot) for snapshot in snapshots]
    for t in range(count):
        for k in (0, 1, 2, 5, 40, SPAN - 1):
            run = rows[t : t + k + 1]
            stay = [sum(all(a[kind][node] == b[kind][node] for a, b in pairwise(run)) for node in range(nodes)) for kind in (0, 1)]
            stay.append(sum(all(of[2][node] == (0,) for of in run) for node in range(nodes)))
            assert [found.count(kind, np.array([t]), k + 1)[0] for kind in ("weighted", "listed", "idle")] == stay


def test_a_row_that_changes_and_changes_back_does_not_last() -> None:
    pair, none = (np.array([0], np.int32), np.array([1], np.int32)), (np.zeros(0, np.int32),) * 2
    snapshots = [Snapshot.from_edges(3, *edges) for edges in (none, pair, none)]
    found = statistics_of(snapshots).lasting
    assert found is not None
    assert [found.count("listed", np.array([0]), length)[0] for length in (1, 2, 3)] == [3, 2, 2]
    assert [found.count("weighted", np.array([0]), length)[0] for length in (1, 2, 3)] == [3, 1, 1]  # the source's degree, too
    assert [found.count("idle", np.array([0]), length)[0] for length in (1, 2, 3)] == [3, 1, 1]


def test_lasting_rows_are_saved_with_the_counts_and_may_be_absent(tmp_path: Path) -> None:
    stats = statistics_of(_snapshots(3, 10, 4))
    stats.save(tmp_path / "new.npz")
    again = SnapshotStatistics.load(tmp_path / "new.npz")
    assert stats.lasting is not None and again.lasting is not None
    assert (again.lasting.weighted == stats.lasting.weighted).all() and (again.lasting.idle == stats.lasting.idle).all()
    with np.load(tmp_path / "new.npz") as arrays:
        np.savez(tmp_path / "old.npz", **{name: arrays[name] for name in arrays if not name.startswith("lasting")})
    assert SnapshotStatistics.load(tmp_path / "old.npz").lasting is None
    head, own = stats.head(3).lasting, statistics_of(_snapshots(3, 10, 4)[:3]).lasting
    assert head is not None and own is not None and all((getattr(head, name) == getattr(own, name)).all() for name in TABLES)
    scaled = stats.scaled(3).lasting
    assert scaled is not None and (scaled.listed == 3 * stats.lasting.listed).all()


def test_tables_that_cannot_be_are_refused() -> None:
    table = np.zeros((4, SPAN), np.int64)
    with pytest.raises(UserError, match="fall with the number"):
        LastingRows(table + np.arange(SPAN), table, table)
    with pytest.raises(UserError, match="1 to 64 snapshots"):
        LastingRows(table, table, table).count("idle", np.array([0]), SPAN + 1)
