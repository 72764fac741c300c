"""Planners: the strategies that an experiment names, and what they plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chronoscale.errors import MachineError, UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.real_exec.kinds import EXECUTED
from chronoscale.strategies import registry
from chronoscale.strategies.costing.request import CostsNeeded
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def planners(experiment: Experiment, executed: bool = False) -> dict[str, Strategy]:
    """The strategies by their names. Raises UserError for an unknown one, one of another family, one that
    refuses what is to be trained, and, where they are to be `executed`, one
    that cannot be."""
    found: dict[str, Strategy] = {}
    valid = registry.of(experiment.family)
    for name in experiment.strategies:
        one = registry.strategy(name, valid)
        if one.family != experiment.family:
            on = trains_on(experiment.model.name, experiment.family)
            raise UserError(f"strategies: '{name}' is for {one.family}, {on}; valid: {', '.join(valid)}")
        if why := one.refuses(experiment.hyper):
            takes = ", ".join(other for other, planner in valid.items() if not planner.refuses(experiment.hyper))
            raise UserError(f"strategies: '{name}' {why}; valid: {takes}")
        if one.name in found:
            raise UserError(f"strategies: two are called '{one.name}'")
        if executed and registry.executable(name).kind not in EXECUTED:
            raise UserError(
                f"strategy '{one.name}' plans schedules of kind '{one.kind}', which nothing executes; kinds: {', '.join(EXECUTED)}"
            )
        found[one.name] = one
    return found


def planned(planner: Strategy, work: Workload, ranks: int, costs: CostModel, sketched: bool = False) -> Schedule:
    """The strategy's schedule of an epoch, or its sketch, if it is what was asked for. Raises UserError as `plan`, and where it is not."""
    with _named(planner):
        found = planner.sketch(work, ranks, costs) if sketched else planner.plan(work, ranks, costs)
    _check(planner, found, ranks, planner.kind)
    return found


def stretches(planner: Strategy, work: Workload, ranks: int, costs: CostModel) -> Iterator[Stretch]:
    """The strategy's schedule of an epoch in stretches, of one that `streams`, each as `planned`."""
    with _named(planner):
        for found in planner.stretches(work, ranks, costs):
            _check(planner, found.schedule, ranks, planner.kind)
            yield found


def preparation(planner: Strategy, work: Workload, ranks: int, costs: CostModel) -> Schedule:
    """What the strategy does once before, as `planned`."""
    with _named(planner):
        found = planner.prepare(work, ranks, costs)
    _check(planner, found, ranks, "preparation")
    return found


@contextmanager
def _named(planner: Strategy) -> Iterator[None]:
    """What the code of a strategy from outside raises is a user's mistake, and names it; a defect of ours stays one."""
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


def _check(planner: Strategy, found: object, ranks: int, kind: str) -> None:
    if not isinstance(found, Schedule):
        raise UserError(f"strategy '{planner.name}': expected a Schedule, got {type(found).__name__}")
    if (found.name, found.ranks, found.kind) != (planner.name, ranks, kind):
        asked, got = f"'{planner.name}', {ranks} ranks, kind '{kind}'", f"'{found.name}', {found.ranks} ranks, kind '{found.kind}'"
        raise UserError(f"strategy '{planner.name}': expected a schedule of {asked}, got {got}")


def trains_on(model: str, family: str) -> str:
    """For people."""
    return f"model '{model}' trains on {family}"
