"""PSG: partition by snapshot group (REAL §7.3), the base of its ablation."""

from __future__ import annotations

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.workload import Family, Workload


class PSG:
    """Each GPU trains one whole group an iteration; every snapshot is loaded and convolved in full; nothing overlaps."""

    name = "psg"
    title = "PSG"
    source = "REAL §7.3"
    family = Family.DTDG

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not DTDG, or 0 ranks."""
        placement = deal(workload.groups, ranks, workload.hyper.groups_per_rank)
        return lower(self.name, workload, placement, Reuse(), costs)
