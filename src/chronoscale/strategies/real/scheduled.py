"""ScheduledStrategy: groups placed by their times and by what pairs of them share; schedules carry a makespan and a bound on it (REAL
§5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check_schedule
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.workload import Workload

TOLERANCE = 1e-6  # relative: what solvers take for equal


def certify(schedule: Schedule, benefits: Benefit, certified: float | None = None, note: str = "") -> Schedule:
    """Return a plan of REAL's with three remarks in it: its makespan by eq. 10, a lower bound on that of any plan, and a note for readers.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU, from which loads are recomputed: a GPU's load in an
    iteration is the time of its groups less what they save, and the makespan is the sum over iterations of the largest load. Eq. 10 also
    adds alpha, the time that ranks take to synchronise, to each iteration; here it is left out (0), as planners do not know the cluster.
    certified: a lower bound on the makespan that is known, ns; None: it is computed. Raises UserError for a schedule that `check_schedule`
    refuses, ValueError for a bound above the makespan by more than a solver's tolerance: one of them is wrong.
    """
    makespan = check_schedule(schedule, benefits)
    least = lower_bound(benefits, schedule.ranks) if certified is None else certified
    if least > makespan * (1 + TOLERANCE):
        raise ValueError(f"schedule '{schedule.name}': its makespan of {makespan} ns is below a lower bound of {least} ns")
    return replace(schedule, planned_ns=round(makespan), bound_ns=min(int(least), round(makespan)), note=note)


@dataclass(frozen=True, slots=True)
class ScheduledStrategy(GroupStrategy):
    """Planner of REAL's schedulers: snapshot groups are placed on GPUs and iterations by `seated(benefits, ranks)`, with reuse within every
    group (type I) and between two that share a GPU (type II)."""

    name: str
    title: str
    source: str
    seated: Callable[[Benefit, int], Placement]
    summary: str = ""
    ablates: str = ""
    reuse = Reuse(snapshots=True, groups=True)

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        return self.seated(compute_benefit(workload, costs), ranks)

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch, with a certified bound on it. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        benefits = compute_benefit(workload, costs)
        return certify(lower(self.name, workload, self.seated(benefits, ranks), self.reuse, costs), benefits)
