"""Planners: the strategies that an experiment names, as objects, and keys that none of them reads."""

from __future__ import annotations

from collections.abc import Mapping

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


def unread_keys(experiment: Experiment, planners: Mapping[str, Strategy]) -> dict[str, list[str]]:
    """Return the keys that only some strategies read, and none of `planners`: key -> names of this package's strategies that read it.

    None where any of `planners` may read what it likes.
    """
    known = [planner.reads for planner in planners.values()]
    if None in known:
        return {}
    read = frozenset().union(*(keys for keys in known if keys is not None))
    readers: dict[str, list[str]] = {}
    for name, strategy in registry.STRATEGIES.items():
        for key in sorted((strategy.reads or frozenset()) - read):
            if strategy.family == experiment.family or "." not in key:
                readers.setdefault(key, []).append(name)
    return readers


def unread_sentences(experiment: Experiment, planners: Mapping[str, Strategy]) -> list[str]:
    """Return a sentence on each key that an experiment file sets, to another value than its default, and that changes nothing.

    planners: the experiment's strategies by name.
    """
    sentences = []
    for key, readers in unread_keys(experiment, planners).items():
        part, _, name = key.rpartition(".")
        keys = getattr(experiment, part) if part else experiment
        if name in keys.model_fields_set and getattr(keys, name) != type(keys).model_fields[name].default:
            sentences.append(f"{key}: it changes nothing with {', '.join(planners)}; strategies that read it: {', '.join(readers)}")
    if experiment.topology is not None and experiment.threads < 2 and "topology" not in unread_keys(experiment, planners):
        sentences.append("topology: it changes nothing on one thread (threads), which is never bound")
    return sentences
