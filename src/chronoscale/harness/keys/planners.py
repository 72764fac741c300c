"""Planners: the strategies that an experiment names, as objects."""

from __future__ import annotations

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.real_exec.kinds import EXECUTED
from chronoscale.strategies import registry
from chronoscale.strategies.strategy import Strategy


def planners(experiment: Experiment, executed: bool = False) -> dict[str, Strategy]:
    """Return the strategies that an experiment file names, as planners by their names.

    executed: a command is to train with them here. Raises UserError for an unknown one, one of another family, one that cannot plan for
    these hyper-parameters, and, if `executed`, one whose schedules no rank can execute.
    """
    planners: dict[str, Strategy] = {}
    valid = registry.of(experiment.family)
    for name in experiment.strategies:
        planner = registry.strategy(name, valid)
        if planner.family != experiment.family:
            model = trains_on(experiment.model.name, experiment.family)
            raise UserError(f"strategies: '{name}' is for {planner.family}, {model}; valid: {', '.join(valid)}")
        if reason := planner.refuses(experiment.hyper):
            takes = ", ".join(other for other, candidate in valid.items() if not candidate.refuses(experiment.hyper))
            raise UserError(f"strategies: '{name}' {reason}; valid: {takes}")
        if planner.name in planners:
            raise UserError(f"strategies: two are called '{planner.name}'")
        if executed and registry.executable(name).kind not in EXECUTED:
            raise UserError(
                f"strategy '{planner.name}' plans schedules of kind '{planner.kind}', which nothing executes; kinds: {', '.join(EXECUTED)}"
            )
        planners[planner.name] = planner
    return planners


def trains_on(model: str, family: str) -> str:
    """Return the clause, for messages on an experiment file, that says which family a model trains on."""
    return f"model '{model}' trains on {family}"
