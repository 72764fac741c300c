"""WindowProgram: one rank's batches of windows, executed; and the preparation before the first epoch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.signals.standardisation import Moments
from chronoscale.batching.signals.windows import WindowAssignment
from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.execution.blocks import Blocks
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.lanes import used
from chronoscale.real_exec.execution.program import EpochResult, Losses, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.signals.feeds import Feed
from chronoscale.real_exec.signals.forecast.masked import MaskedErrors, masked_sum
from chronoscale.real_exec.signals.forecast.model import Forecaster
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.signals.batches import VALIDATE
from chronoscale.strategies.signals.stores import MEASURE
from chronoscale.strategies.workload import Hyper

SUMS = 2  # sum of errors and count of readings of an iteration, beside its gradients


class _Steps(Blocks):
    """What is computed of a batch, from its readings to its gradients: one graph for all batches of a size. It reads them at one place,
    where `bring` copies them."""

    def __init__(self, program: WindowProgram) -> None:
        self._program, self.notes = program, program.losses.notes
        self._places: dict[Hashable, Tensor] = {}

    def of(self, task: Task) -> int | None:
        """The batch."""
        return task.unit if task.op in (Op.FORWARD, Op.BACKWARD) else None

    def shape(self, rows: Sequence[Task]) -> Hashable:
        """How many windows, and what is done with them."""
        return self._program.size(rows[0].unit), *(row.op for row in rows)

    def bring(self, rows: Sequence[Task]) -> None:
        """Copy the readings."""
        batch = self._program.batch
        if (unit := rows[0].unit) in batch:
            come, shape = used(batch.pop(unit)), self.shape(rows)
            if shape not in self._places:
                self._places[shape] = torch.empty_like(come)
            batch[unit] = self._places[shape].copy_(come)


class PreparationProgram(Program):
    """Executes the rows of a schedule of kind "preparation"; afterwards the feed can be read."""

    def __init__(self, schedule: Schedule, feed: Feed, context: Context) -> None:
        self.tasks, self.feed = tasks_of(schedule, context.rank), feed
        self.rank, self.device, self.collective = context.rank, context.device, context.collective

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that preparation does not have."""
        if task.op is Op.ALLREDUCE:
            self._agree()
        elif task.op is Op.H2D:
            self.feed.transfer()
        elif task.op is Op.MATERIALISE and task.step == MEASURE:
            self._own = self.feed.measure(self.rank, self.collective.ranks)
        elif task.op is Op.MATERIALISE:
            self.feed.materialise()
        else:
            raise KeyError(task.op)

    def finish(self) -> EpochResult:
        """Nothing is trained."""
        return EpochResult()

    def _agree(self) -> None:
        """Every rank puts its moments into its slot; the sum of all slots is what an all-gather would bring."""
        own = np.stack([self._own.count, self._own.mean, self._own.squares])
        slots = torch.zeros(self.collective.ranks, *own.shape, dtype=torch.float64, device=self.device)
        slots[self.rank] = torch.from_numpy(own).to(self.device)
        self.collective.all_reduce(slots)
        total = Moments.none(own.shape[1])
        for count, mean, squares in slots.cpu().numpy():
            total = total + Moments(count, mean, squares)
        self.feed.agree(total)


class WindowProgram(Program):
    """Executes one rank's rows of an epoch on signals. A pass is an epoch: it draws a new order of the windows.

    exact: the loss is the mean absolute error over all readings of a step's windows, on whichever ranks they are: ranks add up sums and
    counts. as-published: every rank's mean counts alike (DDP's average). Errors are in the units of the data, missing readings left out.
    """

    def __init__(
        self,
        schedule: Schedule,
        feed: Feed,
        learner: Learner[Forecaster],
        deals: tuple[WindowAssignment, WindowAssignment],
        hyper: Hyper,
        context: Context,
    ) -> None:
        """`learner` has SUMS; `deals` are of training and of validation."""
        self.tasks, self.feed, self.deals = tasks_of(schedule, context.rank), feed, deals
        self.rank, self.device, self.collective = context.rank, context.device, context.collective
        self.learner, self.model, self.window, self.averaged = learner, learner.model, hyper.window, hyper.variant == "as-published"
        self.losses = Losses()
        self._scale = tuple(float(part[0]) for part in (feed.scale.mean, feed.scale.deviation))
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.FETCH: self._read,
            Op.GATHER: self._gather,
            Op.H2D: self._send,
            Op.FORWARD: self._forward,
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: self._all_reduce,
            Op.OPTIMIZE: self._optimize,
        }
        self.epoch = 0
        self.errors = MaskedErrors(torch.zeros(5, dtype=torch.float64, device=self.device))
        self._blocks = _Steps(self)

    @property
    def blocks(self) -> Blocks:
        """Each batch, from its readings to its gradients."""
        return self._blocks

    def size(self, unit: int) -> int:
        """Windows of this rank in a batch of the epoch that runs."""
        return len(self._starts[unit])

    def begin(self) -> None:
        """The next epoch, `epoch`: its number decides the order of the windows."""
        self._starts: dict[int, Int64] = {}
        first = 0
        for deal in self.deals:
            self._starts |= {first + i: starts for i, starts in enumerate(deal.starts(self.rank, self.epoch))}
            first += deal.iterations
        self.batch: dict[int, Tensor] = {}
        self._graph: dict[int, Tensor] = {}
        self.errors.sums.zero_()
        self.learner.clear()

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that windows do not have."""
        self._run[task.op](task)

    def finish(self) -> EpochResult:
        """Losses of the optimiser steps, and scores of what validated."""
        self.epoch += 1
        return EpochResult(self.losses.finish(), self.errors.scores)

    def check(self) -> None:
        """As `Learner.check`."""
        self.learner.check()

    def sound(self, iteration: int) -> bool:
        """Whether no reading of the iteration's batch is infinite; NaN is a missing one. A block that was brought ahead is read again."""
        starts = self._starts[iteration]
        return not len(starts) or not bool(self.feed.read(starts).isinf().any())

    def evaluate(self, deal: WindowAssignment) -> MaskedErrors:
        """Errors over a deal's windows, on whichever ranks; nothing is trained. Called on every rank."""
        errors = MaskedErrors(torch.zeros(5, dtype=torch.float64, device=self.device))
        with torch.no_grad():
            for starts in deal.starts(self.rank, 0):
                if len(starts):
                    batch = self.feed.cut(self.feed.read(starts).to(self.device), starts)
                    errors = errors + MaskedErrors.of(*self._predicted(batch))
        self.collective.all_reduce(errors.sums)
        return errors

    def _predicted(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Prediction and target of a batch, [b, horizon, N], in the units of the data."""
        mean, deviation = self._scale
        batch = batch.float()  # models are float32, whatever the readings are
        inputs = torch.nan_to_num(batch[:, : self.window])  # missing readings are taken at the mean
        return self.model(inputs) * deviation + mean, batch[:, self.window :, :, 0] * deviation + mean

    def _read(self, task: Task) -> None:
        self.batch[task.unit] = self.feed.read(self._starts[task.unit])

    def _gather(self, task: Task) -> None:
        if task.unit in self.batch:  # a block that has arrived
            self.batch[task.unit] = self.feed.cut(used(self.batch[task.unit]), self._starts[task.unit])
        else:
            self._read(task)

    def _send(self, task: Task) -> None:
        self.batch[task.unit] = self.batch[task.unit].to(self.device, non_blocking=True)

    def _forward(self, task: Task) -> None:
        batch = used(self.batch.pop(task.unit))
        with torch.set_grad_enabled(task.step != VALIDATE):
            prediction, target = self._predicted(batch)
            if task.step == VALIDATE:
                self.errors.sums.add_(MaskedErrors.of(prediction, target).sums)
                return
            total, count = masked_sum(prediction, target)
        self._graph[task.unit] = total / count.clamp(min=1) if self.averaged else total
        self.learner.sums.copy_(torch.stack([total.detach(), count.to(total.dtype)]))

    def _backward(self, task: Task) -> None:
        self._graph.pop(task.unit).backward()

    def _all_reduce(self, task: Task) -> None:
        if task.step == VALIDATE:
            self.collective.all_reduce(used(self.errors.sums))
            return
        self._own = self.learner.sums.clone()
        self.learner.all_reduce()

    def _optimize(self, task: Task) -> None:
        total, count = used(self._own) if self.collective.ranks > 1 else self.learner.sums
        if self.averaged:
            self.learner.gradients.div_(self.collective.ranks)
            self.losses.add(task.iteration, total / count.clamp(min=1) / self.collective.ranks)
        else:
            readings = self.learner.sums[1].clamp(min=1)
            self.learner.gradients.div_(readings)
            self.losses.add(task.iteration, total / readings)
        self.learner.step(task.iteration)
