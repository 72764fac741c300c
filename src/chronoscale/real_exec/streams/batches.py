"""BatchProgram: what every program on events does alike: score batches, learn from them, and tell how good they were."""

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
from chronoscale.real_exec.execution.program import EpochResult, Losses, Program
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.outcome import Outcome
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.workload import Hyper

DROPOUT = 3  # what a seed is for, beside what `negatives` draws
Own = TypeVar("Own", bound=Batch)


class BatchProgram(Program):
    """One rank's batches of events. A pass is an epoch.

    The loss is the mean over an iteration's events, on whichever ranks they are: the cross entropy of the destination and that of the
    negative, added (TGN's and TGL's code), or that of the source's label.
    """

    steps: Steps
    _run: Mapping[Op, Callable[[Task], None]]

    def __init__(self, schedule: Schedule, material: Material, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        self.tasks, self.material, self.learner, self.hyper = tasks_of(schedule, context.rank), material, learner, hyper
        self.rank, self.device, self.collective = context.rank, context.device, context.collective
        self.data, self.epoch, self.seed = material.data, 0, context.settings.seed
        # Where our kernels attend, what is left to torch is short; its threads spin after it, and would keep the kernels' from the cores.
        self._lone = self.device.type == "cpu" and material.shape.spatial == "attention" and unavailable_reason("cpu") is None
        self._threads = context.settings.threads
        self._fixed = self.data.negatives("validation").dst if self.data.protocol.task == "link" and hyper.validate else None
        self._losses = Losses()

    @property
    def blocks(self) -> str:
        """None."""
        return "batches differ in the rows that are sampled, and the host works between rows of the device"

    @abstractmethod
    def batch(self, unit: int) -> Batch:
        """That is under way."""

    @abstractmethod
    def together(self, task: Task) -> int:
        """Events of a task's iteration, on all ranks."""

    @abstractmethod
    def seen(self) -> Bool:
        """Which of the events that validate some rank predicts, bool [n]."""

    @abstractmethod
    def leave(self, unit: int) -> None:
        """A batch that nothing more is asked of."""

    def begin(self) -> None:
        """The next epoch, `epoch`: its number decides what is drawn. Until `finish`, torch may have one thread alone."""
        if self._lone:
            torch.set_num_threads(1)
        self.learner.clear()
        torch.manual_seed(derive_key(self.seed, DROPOUT, self.epoch, self.rank))
        self._graph: dict[int, Tensor] = {}
        self._outcome = Outcome(self.data.split.validation, self.width(1), self.device)
        self.learner.model.train()

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that events do not have."""
        self._run[task.op](task)

    def check(self) -> None:
        """As `Learner.check`."""
        self.learner.check()

    def finish(self) -> EpochResult:
        """Losses of the optimiser steps, and scores of what validated."""
        if self._lone:
            torch.set_num_threads(self._threads)
        self.epoch += 1
        return EpochResult(self._losses.finish(), self._scores())

    def _scores(self) -> dict[str, float]:
        if self.hyper.validate:
            self._outcome.seen |= self.seen()
        if not self._outcome.seen.any():
            return {}
        return self._outcome.labels(self.data) if self._fixed is None else self._outcome.links(self.data, self._fixed >= 0)

    def width(self, negatives: int) -> int:
        """Logits of an event that is told from so many."""
        return 1 + negatives if self.data.protocol.task == "link" else self.material.shape.outputs

    def fixed(self, events: EventNumbers) -> Int32:
        """What events that validate are told from, int32 [B, k]."""
        if self._fixed is None:
            return np.empty((len(events), 0), np.int32)
        return self._fixed[row_index(relative_to(events, self.data.split.validation.start))]

    def graded(self, task: Task, step: Callable[[Batch], None]) -> None:
        """With gradients in training, without in validation."""
        model = self.learner.model
        if model.training == (task.step == VALIDATE):
            model.train(not model.training)
        with torch.set_grad_enabled(task.step != VALIDATE):
            step(self.batch(task.unit))

    def score(self, task: Task, batch: Batch) -> None:
        """FORWARD: logits, and the loss or what is predicted."""
        logits = self.steps.logits(batch)
        if task.step == VALIDATE:
            self._outcome.add(batch.events, logits)
            self.over(task)
            return
        loss = self._loss(batch, logits) / self.together(task)
        self._graph[task.unit] = loss
        self._losses.add(task.iteration, loss)

    def _loss(self, batch: Batch, logits: Tensor) -> Tensor:
        """Summed over the batch's events."""
        if self.data.protocol.task == "link":
            truth, weight = torch.zeros_like(logits), batch.weighed(logits)
            truth[:, 0] = 1
            return functional.binary_cross_entropy_with_logits(logits, truth, weight, reduction="sum")
        labels = self.data.training.stream.labels
        assert labels is not None
        own = torch.from_numpy(np.array(labels[row_index(batch.events)]))
        return functional.cross_entropy(logits, sent(own, self.device), reduction="sum")

    def backward(self, task: Task) -> None:
        """BACKWARD."""
        self._graph.pop(task.unit).backward()
        self.over(task)

    def over(self, task: Task) -> None:
        """A batch whose computation is over: what its memory has become is all that may still be asked for."""
        batch = self.batch(task.unit)
        batch.below, batch.trees, batch.features, batch.edges = [], [], None, None
        self.leave(task.unit)

    def all_reduce(self, task: Task) -> None:
        """ALLREDUCE: of gradients, or of what was predicted."""
        if task.step == VALIDATE:
            self._outcome.together(self.collective)
        else:
            self.learner.all_reduce()
