"""Reading of a comparison: from the folders of its trainings to what they reached."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.scores import Score, Scores
from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome
from chronoscale.harness.compare.target import resolve
from chronoscale.harness.compare.trainings import TrainingKey, Trainings, seeds_of
from chronoscale.harness.runs.passes import load_passes, load_schedules
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.real_exec.training.plans import TEST
from chronoscale.records import read_json
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule


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
