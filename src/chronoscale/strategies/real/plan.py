"""Planned: what a scheduler promises of its schedule, beside what no schedule can beat."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.bound import bound
from chronoscale.strategies.real.check import check_schedule
from chronoscale.strategies.schedule import Schedule

TOLERANCE = 1e-6  # relative: what solvers take for equal


def planned(schedule: Schedule, benefits: Benefit, certified: float | None = None, note: str = "") -> Schedule:
    """`schedule` with its makespan by eq. 10, recomputed from its rows, a certified bound on it, and a note.

    alpha of eq. 10 is 0 here: planners do not know the cluster whose synchronisation it would be. Raises UserError as `check_schedule`,
    ValueError for a bound above the makespan by more than a solver's tolerance: one of them is wrong.
    """
    makespan = check_schedule(schedule, benefits)
    least = bound(benefits, schedule.ranks) if certified is None else certified
    if least > makespan * (1 + TOLERANCE):
        raise ValueError(f"schedule '{schedule.name}': its makespan of {makespan} ns is below a lower bound of {least} ns")
    return replace(schedule, planned_ns=round(makespan), bound_ns=min(int(least), round(makespan)), note=note)
