"""Receptive fields: batches of a part's own nodes in a window of snapshots, and the rows that layers need for them (DynaHB, FlareDTDG
§2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.snapshots.sequence import Snapshot

BATCH = 5  # what a seed is for, beside those of `survival` and `sampling`


@dataclass(frozen=True, slots=True)
class WindowBatches:
    """Random mini-batches of an epoch on a partitioned snapshot dataset (DynaHB, FlareDTDG §2.2): some of a rank's nodes in a window of
    snapshots. Each follows from seed, epoch, iteration and rank, so that any rank can draw any."""

    seed: int
    epoch: int

    def draw(self, own: Int64, snapshots: int, window: int, count: int, iteration: int, rank: int) -> tuple[int, Int64]:
        """Draw the mini-batch of a rank in an iteration: the first of `window` consecutive snapshots, out of `snapshots`, and `count` of
        the rank's `own` nodes, int64 ascending (all, where there are fewer)."""
        draw = np.random.default_rng((self.seed, BATCH, self.epoch, iteration, rank))
        first = int(draw.integers(0, snapshots - window + 1))
        return first, np.sort(draw.choice(own, min(count, len(own)), replace=False))


@dataclass(frozen=True, slots=True, eq=False)
class ReceptiveField:
    """Receptive field of a mini-batch of nodes in a window of snapshots: the rows that a model's layers need to compute it.

    `rows`: int64 for each layer, from the first on, whose output it computes; `inputs`: int64 for each snapshot, whose features are read;
    `edges` int64 [snapshots, layers]: in-edges of a layer's rows. Ids ascend. A layer's rows are the same in all snapshots of the window,
    so that states go on from one to the next: what any of them needs.
    """

    rows: tuple[Int64, ...]
    inputs: tuple[Int64, ...]
    edges: Int64

    @classmethod
    def of(cls, window: Sequence[Snapshot], batch: Int64, layers: int) -> ReceptiveField:
        """Find the rows that `layers` layers need for the nodes `batch` in a window of snapshots, by following in-edges, a layer at a
        time."""
        rows = [batch]
        for _ in range(layers - 1):
            rows.insert(0, _union(rows[0], *(sources(snapshot, rows[0]) for snapshot in window)))
        inputs = tuple(_union(rows[0], sources(snapshot, rows[0])) for snapshot in window)
        edges = [[int(_row_bounds(snapshot, layer)[1].sum()) for layer in rows] for snapshot in window]
        return cls(tuple(rows), inputs, np.array(edges, np.int64))


def sources(snapshot: Snapshot, rows: Int64) -> Int64:
    """Return the sources of all in-edges that the nodes `rows` have in a snapshot, node by node: int64 [edges]."""
    begin, degree = _row_bounds(snapshot, rows)
    at = np.repeat(begin - (np.cumsum(degree) - degree), degree) + np.arange(degree.sum())
    return np.asarray(snapshot.src[at], np.int64)


def count_cached_rows(snapshots: Sequence[Snapshot], own: Int64, layers: int) -> list[int]:
    """Count the nodes whose features a rank's mini-batches of its `own` nodes may read, in each snapshot and, as the last number, in any of
    them: what DynaHB keeps on the device."""
    rows = own
    for _ in range(layers - 1):
        rows = _union(rows, *(sources(snapshot, rows) for snapshot in snapshots))
    read = [_union(rows, sources(snapshot, rows)) for snapshot in snapshots]
    return [*(len(nodes) for nodes in read), len(_union(*read))]


def _row_bounds(snapshot: Snapshot, rows: Int64) -> tuple[Int64, Int64]:
    """Return the first in-edge of each node of `rows` and its number of in-edges."""
    begin = np.searchsorted(snapshot.dst, rows.astype(np.int32))
    return begin, np.searchsorted(snapshot.dst, rows.astype(np.int32), side="right") - begin


def _union(*ids: Int64) -> Int64:
    return np.unique(np.concatenate(ids))
