"""Reading of a comparison: from the folders of its trainings to what they reached."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.scores import Score, Scores
from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome, count_gpus
from chronoscale.harness.compare.simulated import refused_sentences, remark_sentences, simulated_epochs
from chronoscale.harness.compare.target import resolve
from chronoscale.harness.compare.trainings import Contender, TrainingKey, Trainings, rates_of, seeds_of
from chronoscale.harness.runs.passes import load_passes, noise_sentences
from chronoscale.harness.workflows.execution_registry import execution_of
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.records import read_json
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule


def comparison(trainings: Trainings) -> Comparison:
    """Read what the trainings of a run of `chronoscale compare` reached, and settle its target. Raises UserError as `resolve`."""
    experiment, run, score = trainings.experiment, trainings.run, trainings.score()
    outcomes = _outcomes(trainings, score)
    rivals = [rival for rival in execution_of(experiment.family).rivals(experiment, run) if score.key in rival.scores]
    naive = {rival.name: rival.scores[score.key] for rival in rivals}
    best, wanted = {one.label: one.best(score) for one in outcomes}, experiment.compare.target
    if isinstance(wanted, str):  # a strategy's score is that on the fewest ranks
        wanted = next((one.label for one in outcomes if one.name == wanted), wanted)
    target = resolve(wanted, score, best, naive)
    scales = tuple(dict.fromkeys(one.ranks for one in outcomes))
    cluster = experiment.cluster if experiment.virtual else ""
    refused = tuple(refused_sentences(experiment, run))
    remarks = remark_sentences(experiment, run) if experiment.virtual else noise_sentences(run).values()
    rates = rates_of(experiment)
    parts = (score, target, outcomes, naive, scales, experiment.epochs, seeds_of(experiment), rates, cluster, refused, tuple(remarks))
    return Comparison(*parts, {rival.name: rival.meaning for rival in rivals})


def _outcomes(trainings: Trainings, score: Score) -> tuple[StrategyOutcome, ...]:
    """Outcomes, fewest ranks first, and in the order of the experiment."""
    schedules, groups = trainings.schedules, trainings.groups
    several, seeds = len({ranks for _, ranks in schedules}) > 1, seeds_of(trainings.experiment)
    labels = {one: f"{one.strategy} on {count_gpus(one.ranks)}" if several else one.strategy for one in schedules}
    outcomes = {}
    for first, group in groups.items():
        rate = trainings.rate(first)
        keys = {seed: TrainingKey(first, rate, seed) for seed in seeds}
        curves = {seed: tuple(trainings.curve(key, score)) for seed, key in keys.items()}
        test = {seed: value for seed, key in keys.items() if (value := _tested(trainings, key, score)) is not None}
        failed = {seed: text for seed, key in keys.items() if (text := trainings.failure(key))}
        for one in group:
            schedule = schedules[one]
            outcomes[one] = StrategyOutcome(
                labels[one],
                one.strategy,
                one.ranks,
                tuple(labels[other] for other in group),
                rate,
                curves,
                test,
                *_epochs(trainings, one, schedule),
                schedule.iterations,
                schedule.targets,
                schedule.mathematics,
                _moved_bytes(schedule),
                failed,
            )
    return tuple(outcomes[one] for one in schedules)


def _epochs(trainings: Trainings, one: Contender, schedule: Schedule) -> tuple[tuple[float, ...], int]:
    """Seconds of a contender's epochs, timed or simulated, and bytes on the fullest rank's device."""
    folder = trainings.timed(one.ranks)
    if trainings.experiment.virtual:
        epoch = simulated_epochs(folder)[one.strategy]
        return epoch.seconds, epoch.peak_bytes
    timed = load_passes(folder, one.strategy)
    return tuple(each.trace.span_ns / 1e9 for each in timed), int(peaks(schedule, timed[0].trace).max())


def _tested(trainings: Trainings, key: TrainingKey, score: Score) -> float | None:
    file = trainings.folder(key) / TEST
    return read_json(file, Scores, "test").get(score.key) if file.exists() else None


def _moved_bytes(schedule: Schedule) -> int:
    """Bytes over the bus and between ranks."""
    moved = np.isin(schedule.op, [int(op) for op in (Op.H2D, Op.D2H, Op.FETCH, *COLLECTIVES)])
    return int(schedule.bytes[moved].sum())
