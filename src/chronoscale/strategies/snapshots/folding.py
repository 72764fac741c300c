"""Folding: nodes without an edge in any snapshot of a group are one row of it, where their features are alike."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.snapshots.lasting import SPAN
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.rows import FP32
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import ModelShape, Workload

ACTIVE = 8  # bytes of a node that has a row of its own, in the list of these that a device keeps for a group
SPREAD_KERNELS = 8  # of spreading a readout over all nodes, forward and backward: copies, a gather, a sum
SPREAD = 36  # bytes that this and a mean loss move for each number of a node without a row of its own
SUMMED = 32  # and more where ranks add up their shares of the loss: errors and squares are written out


def idle_rows(model: ModelShape) -> int:
    """Return how many rows nodes without edges have together: one, or as many as a summary of the highest-scored nodes may pick."""
    return model.hidden if model.summarises else 1


def computed_rows(workload: Workload, start: Ints, length: Ints | int) -> Ints:
    """Return how many rows a device computes of groups: a row for each node with an edge in any of the `length` snapshots from `start` on,
    and `idle_rows` for the others, which all have the same features under a task that `varies`; every node's under another, where these
    were not counted, and for more than `SPAN` snapshots. int64 [n].
    """
    stats = workload.snapshots
    start, length = np.broadcast_arrays(np.asarray(start, np.int64), np.asarray(length, np.int64))
    if stats.lasting is None or not task_of(workload.hyper.task).varies:
        return np.full(start.shape, stats.num_nodes, np.int64)
    idle = np.where(length <= SPAN, stats.lasting.count("idle", start, np.minimum(length, SPAN)), 0)
    return np.asarray(stats.num_nodes - idle + np.minimum(idle, idle_rows(workload.model)), np.int64)


def spread_work(model: ModelShape, idle: Ints | int, summed: bool = False) -> tuple[Ints, Ints]:
    """Return the kernels and the bytes moved that spreading one readout over all nodes, and its loss, add to a gradient pass, int64 [n].

    idle: nodes without a row of their own; 0: nothing is spread. summed: ranks add up their shares of the loss.
    """
    folded = np.asarray(idle, np.int64)
    return SPREAD_KERNELS * (folded > 0), (SPREAD + SUMMED * summed) * model.outputs * folded


def folded_bytes(workload: Workload, ranks: int, rank: Ints, goal: Ints, holder: Ints, nodes: Ints) -> int:
    """Return the device bytes of the values that folded groups predict and of their lists of nodes with a row, which stay there for an
    epoch: of the rank that has most. Groups that are not folded have none, since their features are as large as those values.

    rank, goal int64 [n]: ranks, and snapshots that they predict, repeated or not. holder, nodes int64 [m]: ranks with a list, and the rows
    of its fold.
    """
    place, _ = np.unique(np.stack([rank, goal]), axis=1)
    lists = np.bincount(holder, (nodes - idle_rows(workload.model)) * ACTIVE, minlength=ranks)
    return int((np.bincount(place, minlength=ranks) * workload.snapshots.num_nodes * workload.model.outputs * FP32 + lists).max())
