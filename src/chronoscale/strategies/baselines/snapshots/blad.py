"""BLAD: two groups a GPU in a two-stage pipeline (Fu et al., SC 2023; REAL §7.1)."""

from __future__ import annotations

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.workload import Family, Workload


class BLAD:
    """Two consecutive groups a GPU and iteration, both in memory: aggregation of one overlaps transformation and recurrence of the other.

    Every snapshot is loaded and convolved in full. BLAD's stages are processes that exchange hidden states on the device: a copy a
    snapshot and layer. Gradients are those of the iteration's own parameters: nothing is stale.
    """

    name = "blad"
    title = "BLAD"
    source = "REAL §7.1"
    family = Family.DTDG

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not DTDG, or 0 ranks."""
        return lower(self.name, workload, deal(workload.groups, ranks, 2), Reuse(pipeline=True), costs)
