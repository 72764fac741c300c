"""SignalProgram: executes one rank's batches of windows; PreparationProgram: what happens before the first epoch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.signals.scheduled_sampling import ScheduledSampling
from chronoscale.batching.signals.standardisation import Moments
from chronoscale.batching.signals.windows import WindowAssignment
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.draws import derive_key
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks
from chronoscale.real_exec.execution.losses import Losses
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.execution.transfers import acquire
from chronoscale.real_exec.signals.feeds import Feed
from chronoscale.real_exec.signals.forecast.masked_errors import MaskedErrors, masked_sum
from chronoscale.real_exec.signals.forecast.model import Forecaster
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.signals.batches import VALIDATE
from chronoscale.strategies.signals.stores import MEASURE
from chronoscale.strategies.workload import Hyper

DROPOUT = 4  # what a seed is for, beside what orders and streams draw
SUMS = 2  # sum of errors and count of readings of an iteration, beside its gradients


class _BatchBlocks(GraphBlocks):
    """Graph blocks of one batch each, from its readings to its gradients; one graph serves all batches of a size.

    A graph reads a batch at one place, to which `load_inputs` copies its readings.
    """

    def __init__(self, program: SignalProgram) -> None:
        self._program, self.shares = program, program.losses.shares
        self._places: dict[Hashable, Tensor] = {}

    def of(self, task: Task) -> int | None:
        return task.unit if task.op in (Op.FORWARD, Op.BACKWARD) else None

    def shape(self, rows: Sequence[Task]) -> Hashable:
        """Return the number of windows of the batch, the steps that are trained on, and the operations of its rows."""
        return self._program.size(rows[0].unit), self._program.trained_steps, *(row.op for row in rows)

    def load_inputs(self, rows: Sequence[Task]) -> None:
        batch = self._program.batch
        if (unit := rows[0].unit) in batch:
            readings, shape = acquire(batch.pop(unit)), self.shape(rows)
            if shape not in self._places:
                self._places[shape] = torch.empty_like(readings)
            batch[unit] = self._places[shape].copy_(readings)


class PreparationProgram(Program):
    """A rank's program of schedules of kind "preparation": it measures, standardises or copies a signal; afterwards the feed can be
    read.
    """

    def __init__(self, schedule: Schedule, feed: Feed, context: Context) -> None:
        self.tasks, self.feed = tasks_of(schedule, context.rank), feed
        self.rank = context.rank
        self.device = context.device
        self.collective = context.collective

    def run(self, task: Task) -> None:
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
        return EpochResult()

    def _agree(self) -> None:
        """Combine the moments of all ranks: each puts its own into its slot, so that an all-reduce gathers them."""
        own = np.stack([self._own.count, self._own.mean, self._own.squares])
        slots = torch.zeros(self.collective.ranks, *own.shape, dtype=torch.float64, device=self.device)
        slots[self.rank] = torch.from_numpy(own).to(self.device)
        self.collective.all_reduce(slots)
        total = Moments.none(own.shape[1])
        for count, mean, squares in slots.cpu().numpy():
            total = total + Moments(count, mean, squares)
        self.feed.agree(total)


class SignalProgram(Program):
    """A rank's program of an epoch on a signal: reads windows, predicts, trains. A pass is an epoch: it draws a new order of the windows.

    exact: the loss is the mean absolute (or squared) error over all readings of a step's windows, on whichever ranks they are: ranks add up
    sums and counts. as-published: every rank's mean has the same weight (DDP's average). Errors are in the units of the data, missing
    readings left out.
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
        """learner: with room for SUMS numbers. deals: how training windows and validation windows are assigned to ranks."""
        self.tasks = tasks_of(schedule, context.rank)
        self.feed = feed
        self.deals = deals
        self.rank = context.rank
        self.device = context.device
        self.collective = context.collective
        self.learner = learner
        self.model = learner.model
        self.window = hyper.window
        self.averaged = hyper.variant == "as-published"
        self.squared = hyper.loss == "mse"
        self.curriculum = hyper.curriculum
        self._seed = context.settings.seed
        teaching = (hyper.teacher_decay, deals[0].iterations, feed.windows.horizon, self._seed)
        self.teacher = ScheduledSampling(*teaching) if hyper.teacher_decay else None
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
        self._blocks = _BatchBlocks(self)

    @property
    def graph_blocks(self) -> GraphBlocks | str:
        """Return the rows of each batch of windows, from its readings to its gradients, as what a CUDA graph may hold; why not, with
        dropout or scheduled sampling."""
        if self.model.dropout:
            return "what dropout leaves out follows from the epoch, and is drawn anew for every batch"
        if self.teacher:
            return "which steps scheduled sampling teaches the decoder follows from the epoch, and is drawn anew for every batch"
        return self._blocks

    def size(self, unit: int) -> int:
        """Return how many windows of this rank a batch of the current epoch has. unit: the batch's number in the schedule."""
        return len(self._starts[unit])

    @property
    def trained_steps(self) -> int:
        """Return how many steps of the horizon, the nearest, count in the current epoch's training."""
        return min(1 + self.epoch // self.curriculum, self.feed.windows.horizon) if self.curriculum else self.feed.windows.horizon

    def begin(self) -> None:
        """Begin the next epoch on this rank, whose number (`epoch`) decides the order of the windows."""
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
        self._run[task.op](task)

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self.losses.finish(), self.errors.scores)

    def check(self) -> None:
        self.learner.check()

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether no reading of this rank's batch in the iteration is infinite (NaN is a missing one); the batch is read again."""
        starts = self._starts[iteration]
        return not len(starts) or not bool(self.feed.read(starts).isinf().any())

    def evaluate(self, deal: WindowAssignment) -> MaskedErrors:
        """Return the model's errors over windows of the signal, by step of the horizon, without training, summed over ranks. Called on
        every rank.

        deal: which windows each rank predicts.
        """
        self.model.eval()
        errors = MaskedErrors(torch.zeros(self.feed.windows.horizon, 5, dtype=torch.float64, device=self.device))
        with torch.no_grad():
            for starts in deal.starts(self.rank, 0):
                if len(starts):
                    batch = self.feed.cut(self.feed.read(starts).to(self.device), starts)
                    errors = errors + MaskedErrors.of(*self._predict(batch), by_step=True)
        self.collective.all_reduce(errors.sums)
        return errors

    def _predict(self, batch: Tensor, taught: Sequence[bool] = ()) -> tuple[Tensor, Tensor]:
        """Return prediction and target of a batch, [b, horizon, N], in the units of the data. taught: after which steps of the horizon a
        decoder reads what was true, in training; none: after no step."""
        mean, deviation = self._scale
        batch = batch.float()  # models are float32, whatever the readings are
        inputs = torch.nan_to_num(batch[:, : self.window])  # missing readings are taken at the mean
        target = batch[:, self.window :, :, 0]
        prediction = self.model.teach(inputs, target, taught) if taught else self.model(inputs)
        return prediction * deviation + mean, target * deviation + mean

    def _read(self, task: Task) -> None:
        self.batch[task.unit] = self.feed.read(self._starts[task.unit])

    def _gather(self, task: Task) -> None:
        if task.unit in self.batch:  # a block that has arrived
            self.batch[task.unit] = self.feed.cut(acquire(self.batch[task.unit]), self._starts[task.unit])
        else:
            self._read(task)

    def _send(self, task: Task) -> None:
        self.batch[task.unit] = self.batch[task.unit].to(self.device, non_blocking=True)

    def _forward(self, task: Task) -> None:
        batch = acquire(self.batch.pop(task.unit))
        self.model.train(task.step != VALIDATE)
        if self.model.dropout and self.model.training:
            torch.manual_seed(derive_key(self._seed, DROPOUT, self.epoch, task.unit, self.rank))
        with torch.set_grad_enabled(task.step != VALIDATE):
            teacher = self.teacher if self.model.training else None
            prediction, target = self._predict(batch, teacher.taught(self.epoch, task.unit) if teacher else ())
            if task.step == VALIDATE:
                self.errors.sums.add_(MaskedErrors.of(prediction, target).sums)
                return
            steps = self.trained_steps
            total, count = masked_sum(prediction[:, :steps], target[:, :steps], self.squared)
        self._graph[task.unit] = total / count.clamp(min=1) if self.averaged else total
        self.learner.sums.copy_(torch.stack([total.detach(), count.to(total.dtype)]))

    def _backward(self, task: Task) -> None:
        self._graph.pop(task.unit).backward()

    def _all_reduce(self, task: Task) -> None:
        if task.step == VALIDATE:
            self.collective.all_reduce(acquire(self.errors.sums))
            return
        self._own = self.learner.sums.clone()
        self.learner.all_reduce()

    def _optimize(self, task: Task) -> None:
        total, count = acquire(self._own) if self.collective.ranks > 1 else self.learner.sums
        if self.averaged:
            self.learner.gradients.div_(self.collective.ranks)
            self.losses.add(task.iteration, total / count.clamp(min=1) / self.collective.ranks)
        else:
            readings = self.learner.sums[1].clamp(min=1)
            self.learner.gradients.div_(readings)
            self.losses.add(task.iteration, total / readings)
        self.learner.step(task.iteration)
