"""Trainer: a program that trains a model on snapshots; and the base of those that draw windows or samples anew in every epoch."""

from __future__ import annotations

from typing import Protocol

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.execution.task import tasks_of
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper


class Trainer(Program, Protocol):
    """A rank's program that trains a model on snapshots.

    epoch: the number of its next pass, for those that draw. adapts: whether a program that can choose what its rows do may choose; else it
    does what was planned.
    """

    learner: Learner[SnapshotModel]
    epoch: int = 0
    adapts: bool = False


class SamplingTrainer(Trainer):
    """A rank's program on snapshots whose passes draw windows or samples, from the number of the pass (`epoch`) and the seed.

    there: how many snapshots windows may read, the first ones of the sequence; their features and targets are prepared when it is made.
    """

    def __init__(
        self, schedule: Schedule, material: SnapshotMaterial, learner: Learner[SnapshotModel], hyper: Hyper, context: Context
    ) -> None:
        self.tasks = tasks_of(schedule, context.rank)
        self.collective = context.collective
        self.learner = learner
        self.epoch = 0
        self.material = material
        self.hyper = hyper
        trained = len(hyper.held.split(len(material.snapshots)).training)
        self.there = max(trained - hyper.horizon, 0)
        material.read(range(self.there))
        material.prepare([], range(hyper.horizon, trained))

    @property
    def graph_blocks(self) -> str:
        return "every epoch draws its own windows or samples, and shapes change with them"

    def check(self) -> None:
        self.learner.check()

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether the features of all snapshots that this rank may read are finite."""
        return all(bool(self.material.features(number).isfinite().all()) for number in range(self.there))
