"""Scored: a program on snapshots, and what its model is worth on those that are held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from chronoscale.real_exec.execution.blocks import Blocks
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.evaluation import Evaluation, GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.material import Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper


class Trainer(Program, Protocol):
    """A program that trains a model on snapshots. `epoch`: the number of its next pass, for those that draw; `adapts`: whether those that
    choose what rows do may choose, else they do what was planned."""

    learner: Learner[SnapshotModel]
    epoch: int = 0
    adapts: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    """`evaluation` of a model on the snapshots of each part; none of an empty one."""

    evaluation: Evaluation
    validation: range
    test: range

    def validated(self, model: SnapshotModel) -> Mapping[str, float]:
        """Scores of the snapshots that validate. Called on every rank."""
        return self.evaluation.scores(model, self.validation) if self.validation else {}

    def tested(self, model: SnapshotModel) -> Mapping[str, float]:
        """Scores of the snapshots that test. Called on every rank."""
        return self.evaluation.scores(model, self.test) if self.test else {}


Judging = Callable[[Material, Hyper, Context, Schedule], Judge]


def grouped(material: Material, hyper: Hyper, context: Context, schedule: Schedule) -> Judge:
    """Of models that are trained on groups of snapshots."""
    split = hyper.held.split(len(material.snapshots))
    return Judge(GroupEvaluation(material, hyper, context), split.validation, split.test)


def running(material: Material, hyper: Hyper, context: Context, schedule: Schedule) -> Judge:
    """Of models whose states run on from window to window; of windows that inherit none, from the window alone."""
    keeping = WindowRetention.of(schedule)
    if not keeping.inherits:
        return grouped(material, replace(hyper, group_size=keeping.decay.window), context, schedule)
    split = hyper.held.split(len(material.snapshots))
    return Judge(RunningEvaluation(material, hyper, context), split.validation, split.test)


def windowed(material: Material, hyper: Hyper, context: Context, schedule: Schedule) -> Judge:
    """Of models that are trained on windows, each from the zero state."""
    return grouped(material, replace(hyper, group_size=hyper.recency.decay.window), context, schedule)


class Scored(Program):
    """A trainer whose model is scored: where it `validates`, at the end of every pass; when it is asked, by the test."""

    def __init__(self, trainer: Trainer, judge: Judge, validates: bool) -> None:
        self.tasks, self.collective = trainer.tasks, trainer.collective
        self._trainer, self._judge, self._validates = trainer, judge, validates

    @property
    def blocks(self) -> Blocks | str:
        """The trainer's."""
        return self._trainer.blocks

    def begin(self) -> None:
        """The trainer's."""
        self._trainer.begin()

    def run(self, task: Task) -> None:
        """The trainer's."""
        self._trainer.run(task)

    def check(self) -> None:
        """The trainer's."""
        self._trainer.check()

    def sound(self, iteration: int) -> bool:
        """The trainer's."""
        return self._trainer.sound(iteration)

    def finish(self) -> EpochResult:
        """The trainer's losses, and scores of the snapshots that validate."""
        losses = self._trainer.finish().losses
        return EpochResult(losses, self._judge.validated(self._trainer.learner.model) if self._validates else {})

    def tested(self) -> Mapping[str, float]:
        """As `Judge.tested`."""
        return self._judge.tested(self._trainer.learner.model)
