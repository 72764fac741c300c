"""Targets: which snapshots groups predict, how many predictions that is, and what these cost beside the model's layers."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Workload

PAIR = 8  # bytes of a pair of nodes on a device, int32 each
READOUT_KERNELS = 4  # of gathering readouts: the product, and copies before and after
LOGIT = 16  # bytes of a pair while its loss is computed: logit, loss and their gradients


def predicted_snapshots(workload: Workload, unit: Ints) -> Ints:
    """Return the snapshots that groups predict: `horizon` after each group's last, or after every one of its own where weights evolve;
    int64 [units, predicted]. unit int64 [units]: numbers of groups."""
    size = workload.hyper.group_size
    predicting = np.arange(size) if workload.model.predicts_each else np.array([size - 1])
    return workload.group_start(unit)[:, None] + predicting + workload.hyper.horizon


def predictions(workload: Workload, snapshot: Ints) -> Ints:
    """Return over how many predictions the loss of each snapshot is a mean, int64: its nodes; of the task `links` its edges, and as many
    negatives."""
    stats = workload.snapshots
    if task_of(workload.hyper.task).pairs:
        return 2 * stats.edges[snapshot]
    return np.full_like(snapshot, stats.num_nodes)


def pair_flops(workload: Workload, snapshot: Ints, nodes: Ints | int | None = None) -> Ints:
    """Return the floating-point operations of decoding a predicted snapshot's pairs and of their gradient, with the readout of a rank's
    `nodes` (None: all), int64; 0 for tasks that predict nodes, whose readout is a few numbers wide."""
    model = workload.model
    if not task_of(workload.hyper.task).pairs:
        return np.zeros_like(snapshot)
    own = workload.snapshots.num_nodes if nodes is None else nodes
    return 3 * (2 * own * model.hidden * model.outputs + predictions(workload, snapshot) * model.outputs)


def pair_bytes(workload: Workload, rank: Ints, snapshot: Ints) -> int:
    """Return the device bytes of the pairs of nodes that a rank is trained on, which stay there for an epoch, and of the losses of the
    largest snapshot's: of the rank that has most. 0 for tasks that predict nodes, whose values are as small as features.

    rank, snapshot int64 [n]: what ranks predict, in any order, repeated or not.
    """
    if not task_of(workload.hyper.task).pairs or not len(rank):
        return 0
    place, number = np.unique(np.stack([rank, snapshot]), axis=1)
    pairs = predictions(workload, number)
    return int(np.bincount(place, pairs).max()) * PAIR + int(pairs.max()) * LOGIT
