"""REAL's reuse without its schedulers: in a group (type I), and in pairs of consecutive groups (type II; REAL §4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.scheduled import ScheduledStrategy, certify
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import GroupStrategy, RoundRobinStrategy
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class RealType1(RoundRobinStrategy):
    """REAL type I: planner with PSG's placement (groups in turn) and REAL's reuse within a group: only differences between snapshots are
    sent where that is cheaper, only changed rows are transformed, and three lanes overlap (REAL §4.1)."""

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch, with a certified bound on it. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        schedule, benefits = GroupStrategy.plan(self, workload, ranks, costs), compute_benefit(workload, costs)
        apart = Benefit(
            benefits.times, np.zeros_like(benefits.reuse)
        )  # what neighbours could share is done twice, and bounded as if it were not
        return certify(schedule, apart, lower_bound(benefits, ranks))


def pair_consecutive(benefits: Benefit, ranks: int) -> Placement:
    """Place two consecutive snapshot groups on each GPU in an iteration, as REAL's type II reuse (of snapshots that both have) needs.

    benefits: of which only the number of groups is read. Raises UserError for 0 ranks.
    """
    return deal(len(benefits.times), ranks, 2)


REAL_TYPE1 = RealType1(
    "real-type1",
    "REAL type I",
    "REAL §4.1",
    Reuse(snapshots=True),
    summary="As psg, but only what changes between the snapshots of a group is sent and computed: edges, and features where they change.",
    ablates="real-g+",
)
REAL_REUSE = ScheduledStrategy(
    "real-reuse",
    "REAL type I + II",
    "REAL §4.2, §7.3",
    pair_consecutive,
    summary="As real-type1, and each GPU trains two consecutive groups together, which share snapshots, each sent and aggregated once.",
    ablates="real-g+",
)
