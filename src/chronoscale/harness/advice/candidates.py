"""Candidates that an experiment lets one choose from: strategies, GPUs, clusters, settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

from chronoscale.errors import UserError, unknown
from chronoscale.harness.advice.candidate import Candidate, value_text
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.keys.families import family_of
from chronoscale.harness.keys.planners import planners, unread_keys
from chronoscale.simulator import presets
from chronoscale.strategies.registry import STRATEGIES, of

MOST = 10_000  # candidates: of a second each, hours
ELSEWHERE = {
    "cluster": "advise.clusters names them",
    "gpus": "they are compared anyway",
    "strategies": "they are compared anyway",
    "advise": "it cannot vary itself",
    "name": "it changes nothing that is simulated",
    "failures": "trainings that nothing interrupts are ranked",
    "modules": "one file has one set of them",
}  # keys that no grid varies, and why
EXECUTED = (
    "ranks", "repeats", "warmup", "attempts", "profile_epochs", "threads", "device", "share_gpu", "transfer_thread", "bus", "network",
    "network_latency", "hang_after", "virtual", "engine", "topology", "memory", "assumptions", "compare",
)  # fmt: skip


def clusters(experiment: Experiment) -> tuple[str, ...]:
    """Return the names of the clusters that `chronoscale advise` compares: `advise.clusters`, else the experiment's own."""
    return experiment.advise.clusters or (experiment.cluster,)


def candidates(experiment: Experiment) -> list[Candidate]:
    """Return all candidates that `chronoscale advise` compares: settings outermost, then clusters, GPUs and strategies.

    Without names, strategies are all that simulate such an experiment, but slow solvers; without numbers, GPUs are the powers of two that a
    cluster has, and all. Raises UserError, in terms of the file's keys, for a setting that does not validate, a strategy that refuses one,
    an unknown cluster, and nothing or too much left to compare.
    """
    _priced(experiment)
    candidates: list[Candidate] = []
    budget, grid = experiment.advise.budget.gpus, experiment.advise.grid
    _few(prod(map(len, grid.values())) * len(clusters(experiment)))
    for settings, cluster in product(_settings(experiment), clusters(experiment)):
        varied = variant(experiment, cluster, settings)
        for gpus, name in product(_gpus(experiment, cluster), strategies(varied, "strategies" in experiment.model_fields_set)):
            if budget is None or gpus <= budget:
                candidates.append(Candidate(cluster, name, gpus, settings))
        _few(len(candidates))
    if not candidates:
        raise UserError(f"advise.budget.gpus: {budget}, and every number of GPUs that is asked for is larger")
    return candidates


def _few(points: int) -> None:
    if points > MOST:
        raise UserError(f"advise.grid: more than {MOST:,} points to simulate; leave out values, strategies or gpus")


def variant(experiment: Experiment, cluster: str, settings: Mapping[str, Any]) -> Experiment:
    """Return the experiment of one candidate: with these settings, on that cluster, without `advise`.

    settings: key with dots -> value. Raises UserError in terms of `advise`'s keys.
    """
    data = experiment.model_dump(mode="json", exclude_unset=True, exclude={"advise"}) | {"cluster": cluster}
    try:
        presets.cluster(cluster)
    except UserError as error:
        raise UserError(f"advise.clusters: {error}") from None
    for key, value in settings.items():
        _set(data, key, list(value) if isinstance(value, tuple) else value)
    varied = parse(data, "advise.grid")
    if varied.family != experiment.family:
        raise UserError(f"advise.grid: model.name: '{varied.model.name}' trains on {varied.family}, the experiment on {experiment.family}")
    return varied


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    for step in above:
        inner = data.setdefault(step, {})
        if not isinstance(inner, dict):
            raise UserError(f"advise.grid: {key}: {step} has no keys")
        data = inner
    data[last] = value


def strategies(experiment: Experiment, named: bool) -> list[str]:
    """Return the names of strategies to compare: those that the experiment names (`named`), else all that simulate it.

    Without names, solvers that plan for as long as they are let are left out. Raises UserError as `planners`.
    """
    if named:
        return list(planners(experiment))
    return [name for name, planner in of(experiment.family).items() if not planner.solves and not planner.refuses(experiment.hyper)]


def _gpus(experiment: Experiment, cluster: str) -> tuple[int, ...]:
    if "gpus" in experiment.model_fields_set:
        return experiment.gpus
    most = presets.cluster(cluster).gpus
    return tuple(sorted({*(1 << power for power in range(most.bit_length())), most}))


def _settings(experiment: Experiment) -> list[Mapping[str, Any]]:
    """Return all combinations of the grid's values. Raises UserError for keys that a grid does not vary."""
    grid = experiment.advise.grid
    configured = family_of(experiment).configurations
    for key in grid:
        if (first := key.split(".")[0]) in ELSEWHERE or first in configured:
            raise UserError(f"advise.grid: {key}: no grid varies it; {ELSEWHERE.get(first, 'one file has one')}")
        if first in EXECUTED:
            raise UserError(f"advise.grid: {key}: it changes nothing that is simulated")
        _changes(experiment, key, grid[key])
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _changes(experiment: Experiment, key: str, values: tuple[Any, ...]) -> None:
    """Raises UserError for a key of a grid that changes nothing that is simulated: plans read it by no hyper-parameter, or no strategy that
    is compared reads it."""
    varied = [variant(experiment, clusters(experiment)[0], {key: value}) for value in values]
    if key.startswith("training.") and len({repr(each.hyper) for each in varied}) < min(len(values), 2):
        raise UserError(f"advise.grid: {key}: it changes nothing that is simulated, {_listed(values)} alike")
    compared = {name: STRATEGIES[name] for name in strategies(varied[0], "strategies" in experiment.model_fields_set) if name in STRATEGIES}
    if compared and (readers := unread_keys(experiment, compared).get(key)):
        raise UserError(f"advise.grid: {key}: it changes nothing with {', '.join(compared)}; strategies that read it: {', '.join(readers)}")


def _listed(values: tuple[Any, ...]) -> str:
    return " and ".join(map(value_text, values))


def _priced(experiment: Experiment) -> None:
    """Raises UserError for prices of clusters that are not compared, and for clusters without one where others have one."""
    prices, names = experiment.advise.prices, clusters(experiment)
    if not isinstance(prices, dict) or not prices:
        return
    for name in prices:
        if name not in names:
            raise UserError(f"advise.prices: {unknown('cluster', name, names)}")
    if lacking := [name for name in names if name not in prices]:
        raise UserError(f"advise.prices: none for cluster '{lacking[0]}'")
