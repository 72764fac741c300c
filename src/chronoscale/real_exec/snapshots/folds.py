"""Folds: snapshots of a group whose nodes without edges are one row, and the readout of such rows spread over all nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence


class Fold(NamedTuple):
    """Request for snapshots on fewer rows than there are nodes: those with an edge in any of the `length` snapshots from `start` on come
    first, in order of their ids, then rows of the others, which are all alike, up to `rows`. rows 0: every node has its own.
    """

    start: int = 0
    length: int = 0
    rows: int = 0


UNFOLDED = Fold()


def active_nodes(snapshots: SnapshotSequence, start: int, length: int, before: Int64 | None = None) -> Int64:
    """Return the nodes with an edge in any of the `length` snapshots from `start` on: int64 [A], ascending. before: those of all but the
    last, if they are known."""
    active = np.zeros(snapshots.num_nodes, np.bool_)
    if before is not None:
        active[before] = True
    for t in range(start + length - 1 if before is not None else start, start + length):
        active[snapshots[t].src] = active[snapshots[t].dst] = True
    return np.flatnonzero(active)


def rows_before(before: Int64, after: Int64, idle: int) -> Int64:
    """Return which row of a fold each row of another has come from, int64 [A + idle]: of the `after` nodes, those that are active `before`
    come from their own rows, the others, and the `idle` rows behind them, from rows of nodes without edges.

    before, after: active nodes, int64, ascending, the former among the latter; `idle`: rows of the others, in both folds.
    """
    place = np.searchsorted(before, after)
    known = np.append(before, -1)[place] == after
    return np.concatenate([np.where(known, place, len(before)), len(before) + np.arange(idle)])


def fold_snapshot(snapshot: Snapshot, active: Int64, rows: int) -> Snapshot:
    """Return a snapshot of `rows` nodes, the `active` ones renumbered in their order, the others without edges: what is computed of its
    rows, features of the graph itself included, is what is computed of those nodes. active int64 [A]: all that have an edge, ascending.
    """
    source, destination = (np.searchsorted(active, ends).astype(np.int32) for ends in (snapshot.src, snapshot.dst))
    return Snapshot(rows, source, destination)


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """How to give every node its row of what was computed on a fold's rows. active int64 [A]: nodes of the first A rows, on the device; the
    others have the row behind those. nodes: how many there are.
    """

    active: Tensor
    nodes: int

    def spread(self, values: Tensor) -> Tensor:
        """Return the values of all nodes, [nodes, W], of rows [R, W], R > A. Gradients of a row's nodes add up in a fixed order."""
        result: Tensor = _Spread.apply(values, self.active, self.nodes)  # type: ignore[no-untyped-call]  # torch's own
        return result


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, active: Tensor, nodes: int) -> Tensor:
        ctx.save_for_backward(active)
        ctx.rows = len(values)
        count = len(active)
        return values[count : count + 1].repeat(nodes, 1).index_copy_(0, active, values[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (active,) = ctx.saved_tensors
        gradient, count = gradients[0], len(active)
        rows = gradient.new_zeros(ctx.rows, gradient.shape[1])
        rows[:count] = gradient.index_select(0, active)
        rows[count] = gradient.index_fill(0, active, 0.0).sum(0)
        return rows, None, None
