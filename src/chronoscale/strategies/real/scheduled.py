"""ScheduledStrategy: groups placed by their times and by what pairs of them share; schedules carry a makespan and a bound on it (REAL
§5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check_schedule
from chronoscale.strategies.real.seats import makespan, mates
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.shared_rows import can_share_rows
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
    group (type I), between two that share a GPU (type II), and of rows where `reuse` says so.

    estimate: how the times of groups and what pairs save are estimated, which placing and the certified bound go by; by default from the
    planner's own rows, or as REAL's eq. 16 to 18 (`linear_benefit`), which knows no shared rows.
    """

    name: str
    title: str
    source: str
    seated: Callable[[Benefit, int], Placement]
    summary: str = ""
    ablates: str = ""
    estimate: Callable[[Workload, CostModel], Benefit] = compute_benefit
    reuse: Reuse = Reuse(snapshots=True, groups=True)  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        if self.reuse.rows and self.estimate is not compute_benefit:
            raise ValueError(f"strategy '{self.name}': rows are shared by the planner's own estimate alone")

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        return self._choose(workload, ranks, costs)[1]

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch, with a certified bound on it. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        reuse, placement, benefits = self._choose(workload, ranks, costs)
        return certify(lower(self.name, workload, placement, reuse, costs), benefits)

    def _choose(self, workload: Workload, ranks: int, costs: CostModel) -> tuple[Reuse, Placement, Benefit]:
        """Return what is reused, where groups go and what this was weighed by: rows are shared where the epoch takes less time so."""
        benefits = self.estimate(workload, costs)
        apart = replace(self.reuse, rows=False), self.seated(benefits, ranks), benefits
        if not (self.reuse.rows and can_share_rows(workload)):
            return apart
        shared = compute_benefit(workload, costs, rows=True)
        together = self.reuse, self.seated(shared, ranks), shared
        spans = (makespan(of, mates(placement), ranks) for _, placement, of in (together, apart))
        return together if next(spans) < next(spans) else apart
