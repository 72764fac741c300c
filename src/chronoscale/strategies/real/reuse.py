"""REAL's reuse without its schedulers: in a group (type I), and in pairs of consecutive groups (type II; REAL §4)."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, benefit
from chronoscale.strategies.real.bound import bound
from chronoscale.strategies.real.plan import planned
from chronoscale.strategies.real.scheduled import Scheduled
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.workload import Workload


class RealType1(GroupStrategy):
    """PSG's placement; difference maps where they are cheaper, selective transformation, three lanes (REAL §4.1)."""

    name = "real-type1"
    title = "REAL type I"
    source = "REAL §4.1"
    reuse = Reuse(snapshots=True)

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        """As `GroupStrategy.place`."""
        return deal(workload.groups, ranks, workload.hyper.groups_per_rank)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload of another family, or 0 ranks."""
        schedule = lower(self.name, workload, self.place(workload, ranks, costs), self.reuse, costs)
        found = benefit(workload, costs)
        apart = Benefit(found.times, np.zeros_like(found.reuse))  # what neighbours could share is done twice, and bounded as if it were not
        return planned(schedule, apart, bound(found, ranks))


def pairs(benefits: Benefit, ranks: int) -> Placement:
    """Two consecutive groups a GPU and iteration. Raises UserError for 0 ranks."""
    return deal(len(benefits.times), ranks, 2)


REAL_TYPE1 = RealType1()
REAL_REUSE = Scheduled("real-reuse", "REAL type I + II", "REAL §4.2, §7.3", pairs)
