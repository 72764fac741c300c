"""Trainings of `chronoscale compare`: every mathematics once for each seed, with a learning rate chosen on validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from chronoscale.datasets.scores import Score, scores_present
from chronoscale.errors import NotFiniteError, UserError
from chronoscale.harness.compare.scale import at_scale, scale_folder, scales_of
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.jobs import make_training
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.runs.passes import PREPARATION, SCHEDULE, load_schedules
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.strategies.schedule import Schedule

FOLDER = "trainings"  # in the run's folder: one folder a training
FAILED = "failed.txt"  # in a training's folder: the number that was not finite
DONE = "done"  # in a training's folder once its test, which follows the last epoch, is over, too

OnProgress = Callable[[str], None]


class Contender(NamedTuple):
    """What is compared: a strategy on a number of ranks."""

    strategy: str
    ranks: int


@dataclass(frozen=True, slots=True)
class TrainingKey:
    """Name of one training of a comparison: by which contender's schedule, at which learning rate, from which seed."""

    contender: Contender
    rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.contender.strategy}-ranks{self.contender.ranks}-rate{self.rate!r}-seed{self.seed}"


def seeds_of(experiment: Experiment) -> tuple[int, ...]:
    """Return the seeds that `chronoscale compare` trains from, the first of which also chooses the learning rates."""
    seeds = experiment.compare.seeds
    return seeds if isinstance(seeds, tuple) else tuple(range(experiment.seed, experiment.seed + seeds))


def rates_of(experiment: Experiment) -> tuple[float, ...]:
    """Return the learning rates that every strategy is tried with, ascending."""
    rate = experiment.training.learning_rate
    return tuple(sorted(experiment.compare.rates or (float(f"{rate / 3:.3g}"), rate, float(f"{3 * rate:.3g}"))))


def alike(schedules: Mapping[Contender, Schedule]) -> dict[Contender, tuple[Contender, ...]]:
    """Group contenders that train the same mathematics, which share one training for each seed.

    schedules: of each, fewest ranks first. Returns the first of each group -> all of it.
    """
    groups: dict[str, list[Contender]] = {}
    for contender, schedule in schedules.items():
        digest = schedule.targets and schedule.mathematics  # a strategy that says nothing of its work trains alone
        groups.setdefault(digest or str(contender), []).append(contender)
    return {contenders[0]: tuple(contenders) for contenders in groups.values()}


@dataclass(frozen=True)
class Trainings:
    """The trainings of a run of `chronoscale compare`, done and to be done, once all its epochs are timed or simulated.

    experiment: as `compared` returns it. run: which holds the schedules that were timed, or simulated.
    """

    experiment: Experiment
    run: Run

    def timed(self, ranks: int) -> Path:
        """Return the folder of the schedules for so many ranks and their timed passes, or simulated epochs."""
        return self.run.folder / scale_folder(at_scale(self.experiment, ranks))

    @cached_property
    def schedules(self) -> dict[Contender, Schedule]:
        """Return the schedules that are compared: fewest ranks first, and in the order of the experiment."""
        by_ranks = {ranks: load_schedules(self.timed(ranks)) for ranks in scales_of(self.experiment)}
        names = planners(self.experiment)
        return {Contender(name, ranks): planned[name] for ranks, planned in by_ranks.items() for name in names if name in planned}

    @cached_property
    def groups(self) -> dict[Contender, tuple[Contender, ...]]:
        """Return the contenders that train alike, by the first of each group."""
        return alike(self.schedules)

    def train(self, on_progress: OnProgress) -> None:
        """Train all that is not trained yet: each group at every rate from the first seed, then at its best rate from the others."""
        first, *others = seeds_of(self.experiment)
        groups, rates = self.groups, rates_of(self.experiment)
        total = len(groups) * (len(rates) + len(others))
        keys = [TrainingKey(contender, rate, first) for rate in rates for contender in groups]
        done = 0
        for key in keys:
            done += 1
            self._train(key, f"{done} of {total}", on_progress)
            self.score()  # refuses a target that this task does not have, once there is one training
        for seed in others:  # strategies in turn, so that what changes meanwhile changes for all
            for contender in groups:
                done += 1
                self._train(TrainingKey(contender, self.rate(contender), seed), f"{done} of {total}", on_progress)

    def rate(self, contender: Contender) -> float:
        """Return the learning rate by which a group's first contender is best on validation from the first seed; the middle one where none
        has a finite score."""
        rates, seed = rates_of(self.experiment), seeds_of(self.experiment)[0]
        score = self.score()
        best = {rate: score.best(self.curve(TrainingKey(contender, rate, seed), score)) for rate in rates}
        chosen = score.best(best.values())
        return next((rate for rate, value in best.items() if value == chosen), rates[len(rates) // 2])

    def score(self) -> Score:
        """Return the score that strategies are compared by: the target's, else the first that validation has.

        Raises UserError where validation has no scores, or not the target's.
        """
        target = self.experiment.compare.target
        records = (record for key in self.keys() for record in epoch_records(self.folder(key)))
        present = scores_present(record.scores for record in records)
        if not present:
            raise UserError("compare: nothing validates, so no training has a score; set training.validation, such as 0.2")
        named = next(iter(target)) if isinstance(target, dict) else ""
        known = {score.key: score for score in present}
        if named in known or named in ("", "share"):
            return known.get(named, present[0])
        raise UserError(f"compare.target: {named}: this task has {', '.join(known)}")

    def keys(self) -> Iterator[TrainingKey]:
        """Yield the trainings that the run has begun."""
        for contender in self.groups:
            for rate in rates_of(self.experiment):
                for seed in seeds_of(self.experiment):
                    if (self.folder(key := TrainingKey(contender, rate, seed)) / "epochs").exists():
                        yield key

    def curve(self, key: TrainingKey, score: Score) -> list[float]:
        """Return a training's score after each of its epochs on validation; fewer where it came to a number that is not finite."""
        return [record.scores[score.key] for record in self.epochs(key) if score.key in record.scores]

    def epochs(self, key: TrainingKey) -> list[EpochRecord]:
        """Return the records of a training's epochs."""
        return epoch_records(self.folder(key))

    def folder(self, key: TrainingKey) -> Path:
        """Return the folder of a training."""
        return self.run.folder / FOLDER / str(key)

    def failure(self, key: TrainingKey) -> str:
        """Return why a training ended early; '' where it did not."""
        file = self.folder(key) / FAILED
        return file.read_text() if file.exists() else ""

    def _train(self, key: TrainingKey, place: str, on_progress: OnProgress) -> None:
        folder = self.folder(key)
        if (folder / DONE).exists() or self.failure(key):
            return
        name, ranks = key.contender
        where = f" on {ranks} virtual rank{'s' * (ranks > 1)}" * self.experiment.virtual
        on_progress(f"training {place}: {name}{where}, learning rate {key.rate:g}, seed {key.seed}")
        folder.mkdir(parents=True, exist_ok=True)
        experiment = at_scale(self.experiment, ranks)
        job = make_training(experiment, self._item(key), folder)
        job = replace(
            job, settings=replace(job.settings, seed=key.seed, learning_rate=key.rate, adapts=False, patience=0, writes_predictions=False)
        )
        try:
            run_epochs(job, ranks)
            write_text(folder / DONE, "")
        except NotFiniteError as error:
            write_text(folder / FAILED, str(error))

    def _item(self, key: TrainingKey) -> Item:
        """Return what ranks train: the schedule that was timed, with the orders that follow from the seed."""
        name, ranks = key.contender
        workflow, experiment = workflow_of(self.experiment.family), at_scale(self.experiment, ranks)
        data = workflow.store(experiment, self.run)
        parts, _ = workflow.partition(experiment, self.run, data, workflow.stored(experiment, data), ranks, planners(experiment)[name])
        hyper = replace(experiment.hyper, seed=key.seed)
        prepare = self.timed(ranks) / f"{name}{PREPARATION}"
        file = self.timed(ranks) / f"{name}{SCHEDULE}"
        return Item(name, str(file), str(data), hyper, parts, str(prepare) if prepare.exists() else "")
