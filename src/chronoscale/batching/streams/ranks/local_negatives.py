"""Local negatives: destinations that a rank tells its events from, mostly of those that it has, with weights that make up for it (MemShare,
section 4.3, "localism negative sampler")."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from chronoscale.datasets.arrays import Float32, Int32, Int64, require
from chronoscale.datasets.streams import draws, negatives
from chronoscale.errors import UserError, unknown

WeightVariant = Literal["exact", "as-published"]


def local_training_negatives(
    dst: Int32, event: Int64, among: Int32, local: Int32, remote: float, *, seed: int, epoch: int, variant: WeightVariant = "exact"
) -> tuple[Int32, Float32]:
    """Draw a negative destination for each of a rank's training events, mostly of those that the rank has, so that few rows come from other
    ranks: int32 [B, 1], and its weight in the loss, float32 [B, 1] (MemShare §4.3, eq. 27).

    With probability `remote` (p_r) it is the one that `training_negatives` draws from `among`, else one of `local` int32 [L], those of
    `among` that the rank has; ascending both. Neither is the event's own destination: of N and L nodes below, that one is not counted.
    Where `local` has no other, the draw is `training_negatives`'s, of weight 1.

    exact: weights are the ratio of the uniform distribution over `among` to that drawn from, L / ((1 - p_r) N + p_r L) for a local node and
    1 / p_r for another, so that weighted losses have those of `training_negatives` as their expectation; the mean weight is 1. With p_r = 0
    other nodes are never drawn, and nothing makes up for that: weights are L / N. as-published: N / L times that, as the paper prints them,
    so that their mean is N / L.

    Draws depend only on seed, epoch and the event's number. Raises UserError as `training_negatives`, for a node of `local` that is not in
    `among`, a probability outside [0, 1] and an unknown variant.
    """
    if variant not in get_args(WeightVariant):
        raise unknown("variant", variant, get_args(WeightVariant))
    if not 0 <= remote <= 1:
        raise UserError(f"remote: expected a probability from 0 to 1, got {remote}")
    require(local, "local", "int32", (None,))
    anywhere = negatives.training_negatives(dst, event, among, seed=seed, epoch=epoch)
    if (local[1:] <= local[:-1]).any() or not negatives.contains(among, local).all():
        raise UserError("local: expected different nodes of `among` in ascending order")
    if not local.size:
        return anywhere, np.ones(anywhere.shape, np.float32)
    key = draws.derive_key(seed, negatives.LOCAL, epoch)
    every, own = (nodes.size - negatives.contains(nodes, dst) for nodes in (among, local))  # N and L of each event
    far = (own == 0) | (draws.draw_fraction(key, event, 1) < remote)
    negative = np.where(far[:, None], anywhere, negatives.draw_negatives(key, dst, event, local))
    inside = own / np.maximum((1 - remote) * every + remote * own, 1)  # less than 1 only where no node is counted
    weight = np.where(negatives.contains(local, negative[:, 0]), inside, 1 / remote if remote else 0)
    if variant == "as-published":
        weight *= every / np.maximum(own, 1)
    return negative, np.where(own == 0, 1, weight).astype(np.float32)[:, None]
