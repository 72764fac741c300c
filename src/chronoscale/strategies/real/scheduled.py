"""Scheduled: groups placed by what they take and what they share; the schedule carries its makespan and a bound on it (REAL §5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, benefit
from chronoscale.strategies.real.plan import planned
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class Scheduled(GroupStrategy):
    """Type I reuse in every group, type II in pairs; `seated(benefits, ranks)` places the groups."""

    name: str
    title: str
    source: str
    seated: Callable[[Benefit, int], Placement]
    reuse = Reuse(snapshots=True, groups=True)

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        """As `GroupStrategy.place`."""
        return self.seated(benefit(workload, costs), ranks)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload of another family, or 0 ranks."""
        found = benefit(workload, costs)
        return planned(lower(self.name, workload, self.seated(found, ranks), self.reuse, costs), found)
