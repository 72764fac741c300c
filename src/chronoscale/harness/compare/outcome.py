"""Outcome of a comparison: what every strategy's trainings reached, when, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.scores import Score, Scores
from chronoscale.harness.compare.target import Target, resolve
from chronoscale.harness.compare.trainings import TrainingKey, Trainings, seeds_of
from chronoscale.harness.runs.passes import load_passes, load_schedules
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.real_exec.training.plans import TEST
from chronoscale.records import read_json
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule

INF = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """What one strategy's trainings reached in a comparison.

    group: the strategies that train alike; their curves are one training's, their epochs are timed apart. rate: the learning rate that was
    chosen. curves: seed -> score on validation after each epoch. test: seed -> score of the best epoch's model on the test, where there is
    one. passes_s: seconds of each timed epoch. steps, targets: of an epoch. peak_bytes: of the fullest rank's device; moved_bytes: over the
    bus and between ranks in an epoch, of all ranks. failed: seed -> the number that was not finite.
    """

    name: str
    group: tuple[str, ...]
    rate: float
    curves: Mapping[int, tuple[float, ...]]
    test: Mapping[int, float]
    passes_s: tuple[float, ...]
    steps: int
    targets: int
    peak_bytes: int
    moved_bytes: int
    failed: Mapping[int, str]

    @property
    def epoch_s(self) -> float:
        """Return the median of the timed epochs, s."""
        return float(np.median(self.passes_s))

    def epochs_to(self, target: Target) -> Floats:
        """Return the epochs after which each seed's training first meets the target, float64 [seeds]; infinity where it never does."""
        firsts = []
        for curve in self.curves.values():
            met = [number + 1 for number, value in enumerate(curve) if target.met(value)]
            firsts.append(met[0] if met else INF)
        return np.array(firsts, np.float64)

    def best(self, score: Score) -> Floats:
        """Return each seed's best score, float64 [seeds]; NaN for a training without any."""
        return np.array([score.best(curve) for curve in self.curves.values()], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that a run of `chronoscale compare` found out, in the order of the experiment.

    naive: score on validation of predictions without a model, by name. ranks, epochs, seeds: that were trained.
    """

    score: Score
    target: Target
    outcomes: tuple[StrategyOutcome, ...]
    naive: Mapping[str, float]
    ranks: int
    epochs: int
    seeds: tuple[int, ...]


def comparison(trainings: Trainings) -> Comparison:
    """Read what the trainings of a run of `chronoscale compare` reached, and settle its target. Raises UserError as `resolve`."""
    score, schedules = trainings.score(), load_schedules(trainings.timed)
    outcomes = {}
    for first, names in trainings.groups().items():
        rate = trainings.rate(first)
        keys = {seed: TrainingKey(first, rate, seed) for seed in seeds_of(trainings.experiment)}
        curves = {seed: tuple(trainings.curve(key, score)) for seed, key in keys.items()}
        test = {seed: value for seed, key in keys.items() if (value := _tested(trainings, key, score)) is not None}
        failed = {seed: text for seed, key in keys.items() if (text := trainings.failure(key))}
        for name in names:
            timed = load_passes(trainings.timed, name)
            schedule = schedules[name]
            outcomes[name] = StrategyOutcome(
                name,
                names,
                rate,
                curves,
                test,
                tuple(each.trace.span_ns / 1e9 for each in timed),
                schedule.iterations,
                schedule.targets,
                int(peaks(schedule, timed[0].trace).max()),
                _moved_bytes(schedule),
                failed,
            )
    ordered = tuple(outcomes[name] for name in trainings.names if name in outcomes)
    workflow, experiment = workflow_of(trainings.experiment), trainings.experiment
    naive = {name: scores[score.key] for name, scores in workflow.naive_scores(experiment, trainings.run).items() if score.key in scores}
    target = resolve(experiment.compare.target, score, {one.name: one.best(score) for one in ordered}, naive)
    return Comparison(score, target, ordered, naive, trainings.ranks, experiment.epochs, seeds_of(experiment))


def _tested(trainings: Trainings, key: TrainingKey, score: Score) -> float | None:
    file = trainings.folder(key) / TEST
    return read_json(file, Scores, "test").get(score.key) if file.exists() else None


def _moved_bytes(schedule: Schedule) -> int:
    """Bytes over the bus and between ranks."""
    moved = np.isin(schedule.op, [int(op) for op in (Op.H2D, Op.D2H, Op.FETCH, *COLLECTIVES)])
    return int(schedule.bytes[moved].sum())
