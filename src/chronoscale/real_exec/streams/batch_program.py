"""BatchProgram: what all programs on events do alike: score batches, learn from them, and validate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from chronoscale.cuda_ext.native.backend import unavailable_reason
from chronoscale.datasets.arrays import Bool, Int32
from chronoscale.datasets.streams.draws import derive_key
from chronoscale.datasets.streams.event_numbers import EventNumbers, relative_to, row_index
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.losses import Losses
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.predictions import Predictions
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.workload import Hyper

DROPOUT = 3  # what a seed is for, beside what `negatives` draws
Own = TypeVar("Own", bound=Batch)


class BatchProgram(Program):
    """Base of a rank's programs that train on batches of events. A pass is an epoch.

    The loss is the mean over an iteration's events, on whichever ranks they are: the cross entropy of the destination and that of the
    negative, added (TGN's and TGL's code), or that of the source's label.
    """

    steps: Steps
    _run: Mapping[Op, Callable[[Task], None]]

    def __init__(self, schedule: Schedule, material: StreamMaterial, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        self.tasks = tasks_of(schedule, context.rank)
        self.material = material
        self.learner = learner
        self.hyper = hyper
        self.rank = context.rank
        self.device = context.device
        self.collective = context.collective
        self.data = material.data
        self.epoch = 0
        self.seed = context.settings.seed
        # Where our kernels attend, what is left to torch is short; its threads spin after it, and would keep the kernels' from the cores.
        self._lone = self.device.type == "cpu" and material.shape.spatial == "attention" and unavailable_reason("cpu") is None
        self._threads = context.settings.threads
        self._fixed = self.data.negatives("validation").dst if self.data.protocol.task == "link" and hyper.validate else None
        self._losses = Losses()

    @property
    def graph_blocks(self) -> str:
        return "batches differ in the rows that are sampled, and the host works between rows of the device"

    @abstractmethod
    def batch(self, unit: int) -> Batch:
        """Return this rank's batch of a unit (training or validation iteration) of the schedule, while it is in work."""

    @abstractmethod
    def iteration_events(self, task: Task) -> int:
        """Return how many events the iteration of a row trains on, on all ranks."""

    @abstractmethod
    def predicted_events(self) -> Bool:
        """Return which validation events of the stream some rank predicts, bool [n]."""

    @abstractmethod
    def release(self, unit: int) -> None:
        """Release this rank's batch of a unit of the schedule, which no further row needs."""

    def begin(self) -> None:
        """Begin the next epoch on this rank, whose number (`epoch`) decides what is drawn.

        Until `finish`, torch may be restricted to one thread.
        """
        if self._lone:
            torch.set_num_threads(1)
        self.learner.clear()
        torch.manual_seed(derive_key(self.seed, DROPOUT, self.epoch, self.rank))
        self._graph: dict[int, Tensor] = {}
        self._predictions = Predictions(self.data.split.validation, self.width(1), self.device)
        self.learner.model.train()

    def run(self, task: Task) -> None:
        self._run[task.op](task)

    def check(self) -> None:
        self.learner.check()

    def finish(self) -> EpochResult:
        if self._lone:
            torch.set_num_threads(self._threads)
        self.epoch += 1
        return EpochResult(self._losses.finish(), self._scores())

    def _scores(self) -> dict[str, float]:
        if self.hyper.validate:
            self._predictions.seen |= self.predicted_events()
        if not self._predictions.seen.any():
            return {}
        return self._predictions.labels(self.data) if self._fixed is None else self._predictions.links(self.data, self._fixed >= 0)

    def width(self, negatives: int) -> int:
        """Return how many logits an event has that is compared with so many negative destinations; of label prediction, as many as
        classes.
        """
        return 1 + negatives if self.data.protocol.task == "link" else self.material.shape.outputs

    def fixed_negatives(self, events: EventNumbers) -> Int32:
        """Return the negative destinations of validation events, the same in every epoch, int32 [B, k]."""
        if self._fixed is None:
            return np.empty((len(events), 0), np.int32)
        return self._fixed[row_index(relative_to(events, self.data.split.validation.start))]

    def run_with_grad(self, task: Task, step: Callable[[Batch], None]) -> None:
        """Run a step of a row on this rank's batch: with gradients in training, without in validation."""
        model = self.learner.model
        if model.training == (task.step == VALIDATE):
            model.train(not model.training)
        with torch.set_grad_enabled(task.step != VALIDATE):
            step(self.batch(task.unit))

    def score(self, task: Task, batch: Batch) -> None:
        """Compute the logits of this rank's batch, and its loss in training or its predictions in validation (FORWARD)."""
        logits = self.steps.logits(batch)
        if task.step == VALIDATE:
            self._predictions.add(batch.events, logits)
            self.finish_batch(task)
            return
        loss = self._loss(batch, logits) / self.iteration_events(task)
        self._graph[task.unit] = loss
        self._losses.add(task.iteration, loss)

    def _loss(self, batch: Batch, logits: Tensor) -> Tensor:
        """Return the loss summed over the batch's events."""
        if self.data.protocol.task == "link":
            truth, weight = torch.zeros_like(logits), batch.logit_weights(logits)
            truth[:, 0] = 1
            return functional.binary_cross_entropy_with_logits(logits, truth, weight, reduction="sum")
        labels = self.data.training.stream.labels
        assert labels is not None
        own = torch.from_numpy(np.array(labels[row_index(batch.events)]))
        return functional.cross_entropy(logits, to_device(own, self.device), reduction="sum")

    def backward(self, task: Task) -> None:
        """Run the backward pass of this rank's batch (BACKWARD)."""
        self._graph.pop(task.unit).backward()
        self.finish_batch(task)

    def finish_batch(self, task: Task) -> None:
        """Release the tensors of this rank's batch, whose computation is over; its node memory may still be read."""
        batch = self.batch(task.unit)
        batch.below = []
        batch.trees = []
        batch.features = None
        batch.edges = None
        self.release(task.unit)

    def all_reduce(self, task: Task) -> None:
        """Sum gradients over ranks in training; gather all ranks' predictions in validation (ALLREDUCE)."""
        if task.step == VALIDATE:
            self._predictions.all_reduce(self.collective)
        else:
            self.learner.all_reduce()
