"""Planners: the strategies that an experiment names."""

from __future__ import annotations

from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.strategies import registry
from chronoscale.strategies.strategy import Strategy


def planners(experiment: Experiment, executed: bool = False) -> dict[str, Strategy]:
    """The strategies by their names. Raises UserError for an unknown one, one of another family, and, where they are to be `executed`, one
    that cannot be."""
    found: dict[str, Strategy] = {}
    valid = registry.of(experiment.family)
    for name in experiment.strategies:
        one = registry.strategy(name, valid)
        if one.family != experiment.family:
            on = trains_on(experiment.model.name, experiment.family)
            raise UserError(f"strategies: '{name}' is for {one.family}, {on}; valid: {', '.join(valid)}")
        if one.name in found:
            raise UserError(f"strategies: two are called '{one.name}'")
        found[one.name] = registry.executable(name) if executed else one
    return found


def trains_on(model: str, family: str) -> str:
    """For people."""
    return f"model '{model}' trains on {family}"
