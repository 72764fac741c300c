"""Schedules as strategies plan them, each checked to be what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chronoscale.errors import MachineError, UserError
from chronoscale.strategies.costing.request import CostsNeeded, UnmeasuredCosts
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def plan_epoch(planner: Strategy, work: Workload, ranks: int, costs: CostModel, sketched: bool = False) -> Schedule:
    """Plan an epoch by a strategy for a command, and check that the schedule is what was asked for.

    sketched: take `Strategy.sketch`, of the same work but quick, by which `chronoscale profile` sees what to measure. Raises UserError as
    `Strategy.plan`, for a schedule of another name, kind or number of ranks, and, with its name, for whatever a user's own strategy raises.
    """
    with _errors_of(planner):
        schedule = planner.sketch(work, ranks, costs) if sketched else planner.plan(work, ranks, costs)
        _check(planner, schedule, ranks, planner.kind)
        return schedule.saying(*planner.trained_work(work, schedule))


def plan_with_costs_on_demand(planner: Strategy, work: Workload, ranks: int, costs: Callable[[], CostModel]) -> tuple[Schedule, str]:
    """Plan an epoch for `chronoscale bench`; `costs()`, which may have to measure something, is called only if the plan asks for a
    duration.

    Returns the schedule, and the name of the costs that it was planned with, '' where it asked for none.
    """
    try:
        return plan_epoch(planner, work, ranks, UnmeasuredCosts()), ""
    except CostsNeeded:
        known = costs()
        return plan_epoch(planner, work, ranks, known), known.name


def plan_stretches(planner: Strategy, work: Workload, ranks: int, costs: CostModel) -> Iterator[Stretch]:
    """Plan an epoch a stretch (some consecutive iterations) at a time, for simulations of schedules that memory does not hold.

    planner: a strategy that `plans_incrementally`. Raises as `plan_epoch`.
    """
    with _errors_of(planner):
        for stretch in planner.stretches(work, ranks, costs):
            _check(planner, stretch.schedule, ranks, planner.kind)
            yield stretch


def plan_preparation(planner: Strategy, work: Workload, ranks: int, costs: CostModel) -> Schedule:
    """Plan what a strategy does once before the first epoch (such as standardising a signal), for a command that runs or replays it.

    planner: a strategy that `prepares`. Raises as `plan_epoch`.
    """
    with _errors_of(planner):
        schedule = planner.prepare(work, ranks, costs)
    _check(planner, schedule, ranks, "preparation")
    return schedule


@contextmanager
def _errors_of(planner: Strategy) -> Iterator[None]:
    """Turn what the code of a strategy from outside raises into a UserError that names the strategy; a defect of ours stays one."""
    try:
        yield
    except (UserError, MachineError, CostsNeeded):
        raise
    except OverflowError:
        raise UserError(
            f"strategy '{planner.name}': the work of a task at these widths and counts does not fit into 64 bits; make them smaller"
        ) from None
    except Exception as error:
        if type(planner).__module__.startswith("chronoscale."):
            raise
        raise UserError(f"strategy '{planner.name}': {type(error).__name__}: {error}") from error


def _check(planner: Strategy, schedule: object, ranks: int, kind: str) -> None:
    if not isinstance(schedule, Schedule):
        raise UserError(f"strategy '{planner.name}': expected a Schedule, got {type(schedule).__name__}")
    if (schedule.name, schedule.ranks, schedule.kind) != (planner.name, ranks, kind):
        expected = f"'{planner.name}', {ranks} ranks, kind '{kind}'"
        actual = f"'{schedule.name}', {schedule.ranks} ranks, kind '{schedule.kind}'"
        raise UserError(f"strategy '{planner.name}': expected a schedule of {expected}, got {actual}")
