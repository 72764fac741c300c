"""REAL without its scheduler: type I reuse in a group, type II reuse between consecutive groups (REAL §4)."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, benefit
from chronoscale.strategies.real.bound import bound
from chronoscale.strategies.real.plan import planned
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.workload import Family, Workload


class RealType1:
    """PSG's placement; difference maps where they are cheaper, selective transformation, three lanes (REAL §4.1)."""

    name = "real-type1"
    title = "REAL type I"
    source = "REAL §4.1"
    family = Family.DTDG

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not DTDG, or 0 ranks."""
        placement = deal(workload.groups, ranks, workload.hyper.groups_per_rank)
        schedule = lower(self.name, workload, placement, Reuse(snapshots=True), costs)
        found = benefit(workload, costs)
        apart = Benefit(found.times, np.zeros_like(found.reuse))  # what neighbours could share is done twice, and bounded as if it were not
        return planned(schedule, apart, bound(found, ranks))


class RealReuse:
    """Two consecutive groups a GPU and iteration; what the second shares with the first is neither moved nor convolved again."""

    name = "real-reuse"
    title = "REAL type I + II"
    source = "REAL §4.2, §7.3"
    family = Family.DTDG

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not DTDG, or 0 ranks."""
        schedule = lower(self.name, workload, deal(workload.groups, ranks, 2), Reuse(snapshots=True, groups=True), costs)
        return planned(schedule, benefit(workload, costs))
