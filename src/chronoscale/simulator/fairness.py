"""Fairness: how fast activities run that share resources. The reference, written to be read; engines mean what it says.

Max-min fairness by progressive filling (Bertsekas, Gallager: Data Networks, 6.5.2): all speeds rise together, each in proportion to its
weight, until one is whole or a resource is full; what uses that resource stays as it is, the others rise on.
"""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.arrays import Bool
from chronoscale.strategies.costs import Floats

FULL = 1e-12  # what is left of a resource that is full, of its 1


def rates(share: Floats, weight: Floats | None = None, capacity: Floats | None = None) -> Floats:
    """Speeds, float64 [a], each in (0, 1]: how fast activities run that take `share[a, r]` of resource r at full speed (>= 0).

    x[a] = min(level * weight[a], 1) with one level for all, until a resource is full: what uses it keeps its speed. weight: > 0, 1 without.
    capacity: of each resource, > 0, 1 without. So no activity can run faster but at the cost of one that has no more for its weight.

    Raises ValueError for shapes that do not fit, negative shares, and weights or capacities that are not positive.
    """
    share = np.asarray(share, np.float64)
    weight = np.ones(len(share)) if weight is None else np.asarray(weight, np.float64)
    left = np.ones(share.shape[-1]) if capacity is None else np.array(capacity, np.float64)
    if share.ndim != 2 or weight.shape != share.shape[:1] or left.shape != share.shape[1:]:
        raise ValueError(f"expected shares [a, r], weights [a] and capacities [r], got {share.shape}, {weight.shape} and {left.shape}")
    if not (np.isfinite(share).all() and (share >= 0).all() and (weight > 0).all() and (left > 0).all()):
        raise ValueError("shares must be finite and at least 0, weights and capacities more than 0")
    capacity, speed, rising, level = left.copy(), np.zeros(len(share)), np.ones(len(share), bool), 0.0
    while rising.any():
        taken = (share * np.where(rising, weight, 0.0)[:, None]).sum(axis=0)  # of each resource, as the level rises by 1
        until_full = np.divide(left, taken, out=np.full_like(left, np.inf), where=taken > 0)
        until_whole = np.where(rising, 1 / weight - level, np.inf)
        step = max(min(float(until_full.min(initial=np.inf)), float(until_whole.min())), 0.0)
        level += step
        speed[rising] = np.minimum(level * weight[rising], 1.0)
        left = np.maximum(left - taken * step, 0.0)
        rising = _free(share, rising & (until_whole > step), (taken > 0) & ((until_full <= step) | (left <= FULL * capacity)))
    return speed


def _free(share: Floats, rising: Bool, full: Bool) -> Bool:
    """Those of `rising` that use no full resource."""
    free: Bool = rising & ~(share[:, full] > 0).any(axis=1)
    return free
