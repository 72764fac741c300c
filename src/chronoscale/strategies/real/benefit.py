"""Group times and reuse benefits: the t_k and R_{k1,k2} that REAL's schedulers balance (REAL §5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.planning.builder import NONE
from chronoscale.strategies.planning.timer import Timer
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.lowering import Lowering, Reuse
from chronoscale.strategies.snapshots.sites import GroupSites
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Benefit:
    """Times of snapshot groups and what pairs of them save by sharing a GPU, which REAL's schedulers balance (t_k and R_{k1,k2} of REAL
    §5.1).

    times: float64 [n], ns of each group without a partner; reuse: float64 [n, k], ns saved when groups i and i+1+j share a GPU (0:
    nothing). Only neighbours closer than a group's length share snapshots, so the matrix R is a band.
    """

    times: Floats
    reuse: Floats

    def load(self, first: Ints, second: Ints) -> Floats:
        """Return the time that a GPU takes for two groups together (the load L of REAL eq. 9), float64 ns. first, second: numbers of
        groups, int64; second -1: only the first one."""
        near, far = np.minimum(first, second), np.maximum(first, second)
        apart = far - near
        shared = (second >= 0) & (apart >= 1) & (apart <= self.reuse.shape[1])
        saved = np.where(shared, self.reuse[np.maximum(near, 0), np.clip(apart - 1, 0, max(self.reuse.shape[1] - 1, 0))], 0.0)
        return self.times[first] + np.where(second >= 0, self.times[second], 0.0) - saved


@dataclass(frozen=True, slots=True, eq=False)
class _SameInputs:
    """Workload and costs as the key of a cache; keys of the very same objects are equal. Values of cost models have no hash."""

    workload: Workload
    costs: CostModel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameInputs) and self.workload is other.workload and self.costs is other.costs

    def __hash__(self) -> int:
        return id(self.workload)


def compute_benefit(workload: Workload, costs: CostModel, rows: bool = False) -> Benefit:
    """Estimate the times of all snapshot groups, and what every pair would save on one GPU, for REAL's schedulers (t and R of §5.1): the
    planner's own rows are timed with `costs`.

    Times are with type I reuse (of what consecutive snapshots of a group have in common), savings from type II (of snapshots that two
    groups share). Unlike REAL's eq. 17 (a ratio of snapshot times) the saving is exact: the pair's lanes are laid out with and without
    sharing, so what overlap hides is not counted as saved. rows: rows of recurrences are shared, too. The latest results are remembered:
    strategies, and numbers of GPUs, share them.
    """
    return _compute(_SameInputs(workload, costs), rows)


@lru_cache(maxsize=2)
def _compute(inputs: _SameInputs, rows: bool) -> Benefit:
    workload, costs = inputs.workload, inputs.costs
    lowering, n = Lowering(workload, Reuse(snapshots=True, groups=True, rows=rows), costs), workload.groups
    stride, size = workload.hyper.stride, workload.hyper.group_size
    alone = _pair_times(lowering, np.arange(n), None, 0, costs)
    band = max((size - 1) // stride, 1)
    reuse = np.zeros((n, band))
    for near in range(1, (size - 1) // stride + 1):
        first = np.arange(max(n - near, 0))
        if len(first):
            together = _pair_times(lowering, first, first + near, near * stride, costs)
            reuse[first, near - 1] = np.maximum(alone[first] + alone[first + near] - together, 0)
    return Benefit(alone, reuse)


def _pair_times(lowering: Lowering, first: Ints, second: Ints | None, shift: int, costs: CostModel) -> Floats:
    """Return the time of groups, or of pairs where `second` is given and starts `shift` snapshots later; float64 ns."""
    timer, zero, none = Timer(len(first), costs, lowering.kernels), np.zeros(len(first), np.int64), np.full(len(first), NONE, np.int64)
    span = zero + lowering.workload.hyper.group_size + shift
    at = GroupSites(first, zero, zero, zero, zero, span, none)
    ahead = lowering.add_forward(timer, at)
    if second is None:
        lowering.add_backward(timer, at, ahead, ahead.at(none), none)
        return timer.span
    if not lowering.shares_rows:
        lowering.add_backward(timer, at, ahead, ahead.at(none), none)
    behind = GroupSites(second, zero, zero, zero, zero + shift, span, ahead.last)
    made = lowering.add_forward(timer, behind)
    end = lowering.add_backward(timer, behind, made, ahead, none)
    if lowering.shares_rows:
        lowering.add_backward(timer, at, ahead, made, end)
    return timer.span
