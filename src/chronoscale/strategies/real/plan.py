"""Planned: what a scheduler promises of its schedule, beside what no schedule can beat."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.bound import bound
from chronoscale.strategies.real.check import check_schedule
from chronoscale.strategies.schedule import Schedule


def planned(schedule: Schedule, benefits: Benefit, certified: float | None = None, note: str = "") -> Schedule:
    """`schedule` with its makespan by eq. 10, recomputed from its rows, a certified bound on it, and a note.

    alpha of eq. 10 is 0 here: planners do not know the cluster whose synchronisation it would be. Raises UserError as `check_schedule`.
    """
    makespan = round(check_schedule(schedule, benefits))
    least = int(bound(benefits, schedule.ranks) if certified is None else certified)
    return replace(schedule, planned_ns=makespan, bound_ns=min(least, makespan), note=note)
