"""REAL-L: cross-group scheduling as an integer program, with a time limit and a fallback (REAL §5.2, §5.4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Literal

from chronoscale.cuda_ext.matching import Mates
from chronoscale.errors import ChronoscaleWarning
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.lowering import Reuse, lower
from chronoscale.strategies.real.benefit import Benefit, benefit
from chronoscale.strategies.real.bound import bound
from chronoscale.strategies.real.greedy_plus import search
from chronoscale.strategies.real.ilp_model import compact, published
from chronoscale.strategies.real.plan import planned
from chronoscale.strategies.real.seats import makespan, seat
from chronoscale.strategies.real.solver import Name, Status, solve
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Family, Workload

GAP = 0.10  # where the solver may stop (REAL §5.2)
EPOCHS = 2.0  # the time limit, in estimated epochs (REAL §5.4: tau = 2 T_epoch)
FLOOR_S = 5.0  # and never less: an epoch of milliseconds would leave no time to build the model
LEVELS = 200  # loads that `compact` tells apart
MAX_COLUMNS = 200_000  # of a model that is worth building: 630 groups


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a solver made of a problem: times in ns. `status` is the model's, whose loads may be rounded; `gap` is the true makespan's.

    objective: makespan of `mate` by eq. 10, never above the start's. bound: the solver's own lower bound on any makespan (with the cut, the
    certified bound at least). improved: the start was not the best.
    """

    status: Status | Literal["too large"]
    mate: Mates
    objective: float
    bound: float
    seconds: float
    solver: str
    formulation: str
    improved: bool

    @property
    def gap(self) -> float:
        """Relative to the objective, as in REAL §5.2."""
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0


def optimise(
    benefits: Benefit,
    gpus: int,
    start: Mates,
    seconds: float,
    *,
    alpha: float = 0.0,
    gap: float = GAP,
    formulation: Literal["compact", "published"] = "compact",
    solver: Name = "auto",
    certified: float = 0.0,
    levels: int = LEVELS,
    threads: int = 0,
) -> Answer:
    """The program solved from `start` until its makespan is within `gap` of the optimum, or for `seconds`.

    certified > 0 adds the cut "objective >= certified". levels 0 keeps all loads apart in `compact`; otherwise the model alone rounds them
    down, and the gap asked of the solver is tightened by what that costs. Status 'too large': not built.
    """
    value = makespan(benefits, start, gpus, alpha)
    if _columns(benefits, gpus, formulation) > MAX_COLUMNS:
        return Answer("too large", start, value, certified, 0.0, "none", formulation, False)
    build = partial(compact, levels=levels) if formulation == "compact" else published
    model = build(benefits, gpus, alpha, start)
    rounded = float(model.cost @ model.start)  # at most 1: the start's makespan is the unit
    if certified > 0:
        model = model.at_least(min(certified, rounded * model.unit))
    allowed = max(1 - (1 - gap) / rounded, 0.0) if rounded > 0 else gap
    found = solve(model, seconds, allowed, solver, threads)
    lower_bound = max(found.bound * model.unit, certified, 0.0)
    if found.values is not None:
        mate = model.mates(found.values)
        if (better := makespan(benefits, mate, gpus, alpha)) < value:
            lower_bound = min(lower_bound, better)
            return Answer(found.status, mate, better, lower_bound, found.seconds, found.solver, formulation, True)
    return Answer(found.status, start, value, min(lower_bound, value), found.seconds, found.solver, formulation, False)


def _columns(benefits: Benefit, gpus: int, formulation: str) -> int:
    n = len(benefits.times)
    if formulation == "compact":
        return n * (n + 1) // 2
    return (n + int((benefits.reuse > 0).sum())) * -(-n // gpus) * gpus


class RealL:
    """The ILP from REAL-G+'s schedule on; that schedule itself where the ILP is too large or proves no gap of 10 % in time.

    floor_s: the least time limit, seconds.
    """

    name = "real-l"
    title = "REAL-L"
    source = "REAL §5.2, §5.4"
    family = Family.DTDG

    def __init__(self, floor_s: float = FLOOR_S) -> None:
        self.floor_s = floor_s

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch. Raises UserError for a workload that is not DTDG, or 0 ranks.

        Falls back, with a ChronoscaleWarning and a note in the schedule, on time-out, and at once where the model would be too large: not
        to REAL-G as in the paper but to REAL-G+, which is never longer.
        """
        found = benefit(workload, costs)
        start = search(found, ranks)
        epoch = makespan(found, start, ranks)
        limit = max(EPOCHS * epoch / 1e9, self.floor_s)
        certified = bound(found, ranks)
        answer = optimise(found, ranks, start, limit, certified=certified)
        fell = answer.status in ("too large", "infeasible") or answer.gap > GAP
        mate, note = (start, _fallback(answer, limit)) if fell else (answer.mate, _note(answer))
        if fell:
            warnings.warn(f"{self.name} on {ranks} GPUs: {note}", ChronoscaleWarning, stacklevel=2)
        placement = seat(found, mate, ranks)
        schedule = lower(self.name, workload, placement, Reuse(snapshots=True, groups=True), costs)
        return planned(schedule, found, max(certified, answer.bound), note)


def _note(answer: Answer) -> str:
    kept = "" if answer.improved else "; REAL-G+ not improved on"
    return f"ILP: gap {answer.gap:.1%} after {answer.seconds:.1f} s ({answer.solver}, {answer.formulation}{kept})"


def _fallback(answer: Answer, limit: float) -> str:
    if answer.status == "too large":
        return f"ILP not built: more than {MAX_COLUMNS:,} variables; REAL-G+ instead"
    if answer.status == "infeasible":
        return f"ILP infeasible by {answer.solver}; REAL-G+ instead"
    return f"ILP timed out after {limit:.1f} s at a gap of {answer.gap:.1%} ({answer.solver}, {answer.formulation}); REAL-G+ instead"
