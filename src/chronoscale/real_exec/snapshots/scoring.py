"""Scoring: validation and test scores of a program's model, on held-out snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.evaluation import Evaluation, GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.live_evaluation import LiveEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.trainer import Trainer
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper


@dataclass(frozen=True, slots=True)
class ScoredSplits:
    """The held-out snapshots that validate and those that test, with the evaluations that score a model on them; an empty part has no
    scores.
    """

    evaluation: Evaluation
    tested: Evaluation
    validation: range
    test: range

    def validation_scores(self, model: SnapshotModel) -> Mapping[str, float]:
        """Return a model's scores on the validation snapshots, by key. Called on every rank."""
        return self.evaluation.scores(model, self.validation) if self.validation else {}

    def test_scores(self, model: SnapshotModel) -> Mapping[str, float]:
        """Return a model's scores on the test snapshots, by key. Called on every rank."""
        return self.tested.scores(model, self.test) if self.test else {}


MakeScoredSplits = Callable[[SnapshotMaterial, Hyper, Context, Schedule], ScoredSplits]


def group_splits(material: SnapshotMaterial, hyper: Hyper, context: Context, schedule: Schedule) -> ScoredSplits:
    """Return the held-out snapshots, and how ranks score a model on them that is trained on groups of snapshots.

    material: the snapshots on this rank. hyper: says which are held out. schedule: not read.
    """
    return _splits(GroupEvaluation(material, hyper, context), LiveEvaluation(material, hyper, context, running=False), material, hyper)


def running_splits(material: SnapshotMaterial, hyper: Hyper, context: Context, schedule: Schedule) -> ScoredSplits:
    """Return the held-out snapshots, and how ranks score a model on them whose states run on from window to window.

    Where the schedule's windows inherit no state, it is scored as one trained on windows by themselves.
    """
    keeping = WindowRetention.of(schedule)
    if not keeping.inherits:
        return group_splits(material, replace(hyper, group_size=keeping.decay.window), context, schedule)
    return _splits(RunningEvaluation(material, hyper, context), LiveEvaluation(material, hyper, context, running=True), material, hyper)


def window_splits(material: SnapshotMaterial, hyper: Hyper, context: Context, schedule: Schedule) -> ScoredSplits:
    """Return the held-out snapshots, and how ranks score a model on them that is trained on windows, each from the zero state.

    material: the snapshots on this rank. hyper: says which are held out and how long windows are. schedule: not read.
    """
    return group_splits(material, replace(hyper, group_size=hyper.recency.decay.window), context, schedule)


def _splits(evaluation: Evaluation, live: Evaluation, material: SnapshotMaterial, hyper: Hyper) -> ScoredSplits:
    split = hyper.held.split(len(material.snapshots))
    return ScoredSplits(evaluation, live if hyper.held.live else evaluation, split.validation, split.test)


class ScoredProgram(Program):
    """A rank's program that trains as another one, and scores the model: on validation snapshots at the end of every pass, if it
    `validates`; on test snapshots by `test_scores`.
    """

    def __init__(self, trainer: Trainer, splits: ScoredSplits, validates: bool) -> None:
        self.tasks, self.collective = trainer.tasks, trainer.collective
        self._trainer = trainer
        self._splits = splits
        self._validates = validates

    @property
    def graph_blocks(self) -> GraphBlocks | str:
        return self._trainer.graph_blocks

    def begin(self) -> None:
        self._trainer.begin()

    def run(self, task: Task) -> None:
        self._trainer.run(task)

    def check(self) -> None:
        self._trainer.check()

    def inputs_finite(self, iteration: int) -> bool:
        return self._trainer.inputs_finite(iteration)

    def finish(self) -> EpochResult:
        """Return the trainer's losses of the pass, and validation scores."""
        losses = self._trainer.finish().losses
        return EpochResult(losses, self._splits.validation_scores(self._trainer.learner.model) if self._validates else {})

    def test_scores(self) -> Mapping[str, float]:
        return self._splits.test_scores(self._trainer.learner.model)
