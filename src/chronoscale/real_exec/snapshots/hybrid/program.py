"""HybridProgram: executes one rank's hybrid batches; every pass is an epoch with draws of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.receptive_field import WindowBatches
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.losses import Losses
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.snapshots.hybrid.agent import Agent
from chronoscale.real_exec.snapshots.hybrid.averaging import Averaging
from chronoscale.real_exec.snapshots.hybrid.batch import HybridBatch
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.trainer import SamplingTrainer
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.baselines.snapshots.dynahb import LEAD, BatchSize, first_batch, largest_batch, rank_of_nodes
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.workload import Hyper


class HybridProgram(SamplingTrainer):
    """A rank's program for DynaHB's hybrid batches: some nodes in a window of snapshots. Losses are means over ranks.

    What batches hold follows from the number of the pass (`epoch`), the seed, the rank and their size. Where it `adapts`, rank 0's agent
    chooses the size; it learns from pass to pass, and starts anew in a new program.
    """

    def __init__(
        self,
        schedule: Schedule,
        material: SnapshotMaterial,
        chunks: Chunks,
        learner: Learner[SnapshotModel],
        hyper: Hyper,
        context: Context,
    ) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        learner.later = True  # a rank that stopped alone would leave the others waiting
        self._device, self._rank = context.device, context.rank
        parts = rank_of_nodes(ExactChunking(material.snapshots, chunks), schedule.ranks)
        self._own = np.flatnonzero(parts == context.rank)
        limit = largest_batch(hyper, self.there, int(np.bincount(parts, minlength=schedule.ranks).max()))
        self._choice = first_batch(limit)
        if timed := hyper.variant == "as-published":
            context.require_times("training.variant: as-published has the size of hybrid batches follow measured times")
        self._agent = Agent(self._choice, limit, hyper.seed, timed)
        self._averaging = Averaging(learner.model, context.collective)
        self.batches: dict[int, HybridBatch] = {}  # by iteration, until it has ended
        self.choices: dict[int, BatchSize] = {}  # by iteration of the pass
        self.moved: dict[int, int] = {}  # task -> bytes that a row gathered or sent
        self._losses = Losses()
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.GATHER: self._gather,
            Op.H2D: self._send,
            Op.AGGREGATE: self._compute,
            Op.TRANSFORM: self._compute,
            Op.TEMPORAL: self._compute,
            Op.BACKWARD: self._backward,
            Op.OPTIMIZE: self._optimize,
            Op.ALLREDUCE: lambda task: self._averaging.all_reduce(),
            Op.COPY: lambda task: self._averaging.take_up(),
        }

    def begin(self) -> None:
        """Begin an epoch of DynaHB on this rank; its first batches are as large as the last ones of the epoch before."""
        self._draws = WindowBatches(self.hyper.seed, self.epoch)
        self.batches.clear()
        self.choices = dict.fromkeys(range(LEAD), self._choice)
        self._averaging.begin(torch.tensor([float("nan"), float(self._choice.window), float(self._choice.vertices)]))
        size = [float(self._choice.window), float(self._choice.vertices)] if self._rank == 0 else [0.0, 0.0]
        self._same = torch.tensor(size, device=self._device)
        self.learner.clear()
        self._clock = time.perf_counter_ns()

    def run(self, task: Task) -> None:
        self._run[task.op](task)

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self._losses.finish())

    def _batch(self, iteration: int) -> HybridBatch:
        if iteration not in self.batches:
            choice = self.choices[iteration]
            first, nodes = self._draws.draw(self._own, self.there, choice.window, choice.vertices, iteration, self._rank)
            self.batches[iteration] = HybridBatch(self.material, choice, first, nodes, self.learner.model.shape.layers)
        return self.batches[iteration]

    def _beyond(self, task: Task) -> bool:
        """Return whether the batch's window has no snapshot for a row."""
        return task.step >= self.choices[task.iteration].window

    def _gather(self, task: Task) -> None:
        if self._beyond(task):
            return
        batch = self._batch(task.iteration)
        self.moved[task.task] = batch.gather(task.step, self.material.csr(batch.first + task.step))

    def _send(self, task: Task) -> None:
        if not self._beyond(task):
            self.moved[task.task] = self._batch(task.iteration).send(task.step, self._device)

    def _compute(self, task: Task) -> None:
        if not self._beyond(task):
            self._batch(task.iteration).compute(task.op, task.step, task.layer, self.learner.model)

    def _backward(self, task: Task) -> None:
        loss = self._batch(task.iteration).loss(self.learner.model, self.hyper.horizon, self._device)
        loss.backward()
        self._loss_value = loss.detach()
        self._losses.add(task.iteration, loss / self.collective.ranks)
        del self.batches[task.iteration]

    def _optimize(self, task: Task) -> None:
        def next_numbers(arrived: Tensor) -> Tensor:
            """Return the numbers to sum with the next mean, given the last ones.

            The agent makes the size of a batch to come of them; the size in force is the one before. That it needs these sums is DynaHB's
            own: the host waits for them.
            """
            if not self.adapts:
                self.choices[task.iteration + LEAD] = self._choice
                return torch.cat([self._loss_value.view(1) / self.collective.ranks, self._same])
            loss, window, vertices = arrived.tolist()
            self._choice = self.choices[task.iteration + LEAD] = BatchSize(int(window), int(vertices))
            size = [0.0, 0.0]
            if self._rank == 0:
                now = time.perf_counter_ns()
                known = not math.isnan(loss)  # the first sums have none
                chosen = self._agent.next_choice(loss, now - self._clock) if known else self._choice
                size, self._clock = [float(chosen.window), float(chosen.vertices)], now
            return torch.cat([self._loss_value.view(1) / self.collective.ranks, to_device(torch.tensor(size), self._device)])

        self._averaging.step(lambda: self.learner.step(task.iteration), next_numbers)
