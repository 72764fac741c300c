"""REAL-L: cross-group scheduling as an integer program, with a time limit and a fallback (REAL §5.2, §5.4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Literal

from chronoscale.cuda_ext.scheduling.matching import Mates
from chronoscale.errors import ChronoscaleWarning, MachineError
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.greedy_plus import search
from chronoscale.strategies.real.ilp_model import compact_program, published_program
from chronoscale.strategies.real.scheduled import certify
from chronoscale.strategies.real.seats import makespan, seat
from chronoscale.strategies.real.solver import Name, Status, solve
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.workload import Workload

GAP = 0.10  # where the solver may stop (REAL §5.2)
EPOCHS = 2.0  # the time limit, in estimated epochs (REAL §5.4: tau = 2 T_epoch)
UNNEEDED = "the solver was not needed"  # of a note: the certified bound proves enough
FLOOR_S = 5.0  # and never less: an epoch of milliseconds would leave no time to build the model
LEVELS = 200  # loads that `compact` tells apart
MAX_COLUMNS = 200_000  # of a model that is worth building: 630 groups


@dataclass(frozen=True, slots=True, eq=False)
class ILPResult:
    """Result of solving REAL-L's integer program (which groups share a GPU); times in ns.

    mate: the partner of each group. status: the solver's, of a model whose loads may be rounded; 'certified': not solved, since the start
    was good enough; 'too large': not built. objective: makespan of `mate` by eq. 10, never above the start's. proved: the solver's own
    lower bound on any makespan, 0 without one; certified: the bound that was passed in. improved: whether the start was improved on.
    """

    status: Status | Literal["certified", "too large"]
    mate: Mates
    objective: float
    proved: float
    certified: float
    seconds: float
    solver: str
    formulation: str
    improved: bool

    @property
    def bound(self) -> float:
        """The better of the two lower bounds on any schedule's makespan, the solver's and the certified one, ns."""
        return max(self.proved, self.certified)

    @property
    def gap(self) -> float:
        """How far the placement may be from the best, (makespan - better bound) / makespan, as in REAL §5.2."""
        return self.to(self.bound)

    def to(self, bound: float) -> float:
        """Return how far the placement may be from the best by one of the lower bounds (ns): (makespan - bound) / makespan."""
        return (self.objective - bound) / self.objective if self.objective > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ILPSettings:
    """Settings of a solve of REAL-L's integer program: it ends within `gap` of the optimum, or after `seconds`; a certified bound within
    `gap` of the start ends it at once, unless `always`.

    formulation: the paper's, or one without the symmetry of GPUs and iterations (compact). levels 0 keeps all loads apart in the compact
    program; otherwise only the model rounds them down, and the solver's gap is tightened by what that costs. threads 0: as the solver
    likes.
    """

    seconds: float
    gap: float = GAP
    formulation: Literal["compact", "published"] = "compact"
    solver: Name = "auto"
    levels: int = LEVELS
    threads: int = 0
    always: bool = False


def optimise(benefits: Benefit, gpus: int, start: Mates, settings: ILPSettings, alpha: float = 0.0, certified: float = 0.0) -> ILPResult:
    """Improve a pairing of snapshot groups by REAL-L's integer program (§5.2), within the time that the `settings` give.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. start: the partner of each group (-1: none) to
    begin with. alpha: ns of synchronisation an iteration. certified: a lower bound on any makespan, ns (`lower_bound`); above 0 it also
    cuts off what cannot be in a model of unrounded loads. Raises MachineError when the solver fails or is not installed.
    """
    gap, formulation = settings.gap, settings.formulation
    value = makespan(benefits, start, gpus, alpha)
    if not settings.always and certified > 0 and value - certified <= gap * value:
        return ILPResult("certified", start, value, 0.0, certified, 0.0, "none", formulation, False)
    if _columns(benefits, gpus, formulation) > MAX_COLUMNS:
        return ILPResult("too large", start, value, 0.0, certified, 0.0, "none", formulation, False)
    build = partial(compact_program, levels=settings.levels) if formulation == "compact" else published_program
    model = build(benefits, gpus, alpha, start)
    rounded = float(model.cost @ model.start)  # at most 1: the start's makespan is the unit
    if certified > 0 and (formulation == "published" or not settings.levels):
        model = model.at_least(certified)
    allowed = max(1 - (1 - gap) / rounded, 0.0) if rounded > 0 else gap
    solution = solve(model, settings.seconds, allowed, settings.solver, settings.threads)
    proved = 0.0 if solution.status == "infeasible" else max(solution.bound * model.unit, 0.0)
    if solution.values is not None:
        mate = model.mates(solution.values)
        if (better := makespan(benefits, mate, gpus, alpha)) < value:
            return ILPResult(solution.status, mate, better, proved, certified, solution.seconds, solution.solver, formulation, True)
    return ILPResult(solution.status, start, value, proved, certified, solution.seconds, solution.solver, formulation, False)


def _columns(benefits: Benefit, gpus: int, formulation: str) -> int:
    """Return the number of variables that a formulation would have."""
    n = len(benefits.times)
    if formulation == "compact":
        return n * (n + 1) // 2
    return (n + int((benefits.reuse > 0).sum())) * -(-n // gpus) * gpus


@dataclass(frozen=True, slots=True)
class RealL(GroupStrategy):
    """REAL-L: planner that improves REAL-G+'s placement of snapshot groups by an integer program; the placement itself where a certified
    bound puts it within 10 % of the best, and where the program is too large or fails.

    floor_s: the least time limit, seconds. always: run the solver even where the certified bound proves enough.
    """

    floor_s: float = FLOOR_S
    always: bool = False
    name = "real-l"
    title = "REAL-L"
    source = "REAL §5.2, §5.4"
    summary = "As real-g+-own, improved by an integer program within a time limit."
    reuse = Reuse(snapshots=True, groups=True)
    solves = True

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        return self._solve_placement(compute_benefit(workload, costs), ranks)[0]

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch by REAL-L. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks.

        Falls back, with a ChronoscaleWarning and a note in the schedule, on time-out, where the solver fails, and at once where the model
        would be too large: not to REAL-G as in the paper but to REAL-G+'s search, or to what the solver made of it in time.
        """
        benefits = compute_benefit(workload, costs)
        placement, least, note = self._solve_placement(benefits, ranks)
        return certify(lower(self.name, workload, placement, self.reuse, costs), benefits, least, note)

    def sketch(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan with REAL-G+'s placement, from which the integer program would go on: the same kinds of work, for a profile, without
        solving."""
        placement = seat(benefits := compute_benefit(workload, costs), search(benefits, ranks), ranks)
        return certify(lower(self.name, workload, placement, self.reuse, costs), benefits)

    def _solve_placement(self, benefits: Benefit, ranks: int) -> tuple[Placement, float, str]:
        """Return the placement, the best lower bound known (ns), and a note on how the two came about."""
        start = search(benefits, ranks)
        limit = max(EPOCHS * makespan(benefits, start, ranks) / 1e9, self.floor_s)
        certified = lower_bound(benefits, ranks)
        try:
            answer = optimise(benefits, ranks, start, ILPSettings(limit, always=self.always), certified=certified)
        except MachineError as error:
            fallback = f"ILP failed: {error}; REAL-G+ instead"
            mate = start
            least = certified
        else:
            fallback = _fallback(answer, limit)
            mate = answer.mate
            least = answer.bound
        if fallback:
            warnings.warn(f"{self.name} on {ranks} GPUs: {fallback}", ChronoscaleWarning, stacklevel=3)
        return seat(benefits, mate, ranks), least, fallback or _note(answer)


def _fallback(answer: ILPResult, limit: float) -> str:
    """Return why the program gave no answer; '' where it did."""
    if answer.status == "too large":
        return f"ILP not built: more than {MAX_COLUMNS:,} variables; REAL-G+ instead"
    if answer.status == "infeasible":
        return f"ILP infeasible by {answer.solver}; REAL-G+ instead"
    if answer.gap <= GAP:
        return ""
    used = "its best schedule until then" if answer.improved else "REAL-G+ instead"
    return f"ILP timed out after {limit:.1f} s at a gap of {_percent(answer.gap)} ({answer.solver}, {answer.formulation}); {used}"


def _note(answer: ILPResult) -> str:
    """Return the note of a schedule whose program was solved, or not needed."""
    certified = _percent(answer.to(answer.certified))
    if answer.status == "certified":
        return f"ILP: gap {certified} (certified bound) of REAL-G+; {UNNEEDED}"
    own, run = _percent(answer.to(answer.proved)), f"after {answer.seconds:.1f} s ({answer.solver}, {answer.formulation})"
    kept = "" if answer.improved else "; REAL-G+ not improved on"
    if answer.proved > answer.certified:
        return f"ILP: gap {own} by the solver {run}, {certified} by the certified bound alone{kept}"
    return f"ILP: gap {certified} (certified bound), {own} by the solver alone {run}{kept}"


def _percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:z.1f} %"


REAL_L = RealL()
