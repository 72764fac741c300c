"""Trained work of an epoch: how many targets its optimiser steps train on, and a digest by which plans that train alike are found."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Ints


class TrainedWork(NamedTuple):
    """What an epoch trains on, whatever the time it takes.

    targets: predictions in the loss, of all steps and ranks: nodes in snapshots, or edges of
    snapshots and their negatives, events of a stream, windows of a signal; 0 where unknown.
    mathematics: equal for plans that train on the same targets between two optimiser steps, in the same order, by the same formulas, so
    that their losses may differ by rounding alone; '' where unknown.
    """

    targets: int = 0
    mathematics: str = ""


def trained_work(step: Ints, target: Ints, each: int | Ints, formulas: str = "") -> TrainedWork:
    """Return the work of an epoch that trains on `target[i]` in optimiser step `step[i]`, int64 [n] both, in any order.

    each: predictions a target stands for, one number or int64 [n]. formulas: what is computed otherwise than the model says, such as
    sampled neighbours or stale memory; '' for a strategy that is exact.
    """
    order = np.lexsort((target, step))
    pairs = np.stack([step[order], target[order]]).astype("<i8")
    digest = hashlib.sha256(pairs.tobytes() + formulas.encode()).hexdigest()[:16]
    return TrainedWork(int(np.broadcast_to(each, target.shape).sum()), digest)
