"""WindowProgram: one rank's batches of windows, executed; and the preparation before the first epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.standard import Moments
from chronoscale.datasets.signals.windows import Deal
from chronoscale.real_exec.collective import Collective
from chronoscale.real_exec.signals.feeds import Feed
from chronoscale.real_exec.signals.forecast.masked import MaskedErrors, masked_sum
from chronoscale.real_exec.signals.forecast.model import Forecaster
from chronoscale.real_exec.task import Task, tasks_of
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.signals.batches import VALIDATE
from chronoscale.strategies.signals.stores import MEASURE


class PreparationProgram:
    """Executes the rows of a schedule of kind "preparation"; afterwards the feed can be read."""

    def __init__(self, schedule: Schedule, rank: int, feed: Feed, device: torch.device, collective: Collective) -> None:
        self.tasks = tasks_of(schedule, rank)
        self.rank, self.feed, self.device, self.collective = rank, feed, device, collective

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

    def losses(self) -> dict[int, float]:
        """None."""
        return {}

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


class WindowProgram:
    """Executes one rank's rows of an epoch on signals. A pass is an epoch: it draws a new order of the windows.

    exact: the loss is the mean absolute error over all readings of a step's windows, on whichever ranks they are: ranks add up sums and
    counts. as-published: every rank's mean counts alike (DDP's average). Errors are in the units of the data, missing readings left out.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        feed: Feed,
        model: Forecaster,
        deals: tuple[Deal, Deal],
        window: int,
        device: torch.device,
        collective: Collective,
        learning_rate: float = 0.01,
        averaged: bool = False,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self.tasks = tasks_of(schedule, rank)
        self.rank, self.feed, self.model, self.deals, self.window = rank, feed, model.to(device), deals, window
        self.device, self.collective, self.averaged = device, collective, averaged
        self.optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=learning_rate)
        parameters = [p for p in model.parameters() if p.requires_grad]
        self._flat = torch.zeros(sum(p.numel() for p in parameters) + 2, device=device)  # gradients, sum of errors, count of readings
        for p, part in zip(parameters, self._flat[:-2].split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        self._scale = tuple(float(part[0]) for part in (feed.scale.mean, feed.scale.deviation))
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.FETCH: self._read,
            Op.GATHER: self._gather,
            Op.H2D: self._send,
            Op.FORWARD: self._forward,
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: self._allreduce,
            Op.OPTIMIZE: self._optimize,
        }
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Go on with this epoch: its number decides the order of the windows."""
        self.epoch = epoch
        self._starts: dict[int, Int64] = {}
        first = 0
        for deal in self.deals:
            self._starts |= {first + i: starts for i, starts in enumerate(deal.starts(self.rank, self.epoch))}
            first += deal.iterations
        self._batch: dict[int, Tensor] = {}
        self._loss: dict[int, Tensor] = {}
        self._graph: dict[int, Tensor] = {}
        self._errors = MaskedErrors(torch.zeros(5, dtype=torch.float64, device=self.device))
        self._flat.zero_()

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that windows do not have."""
        self._run[task.op](task)

    def losses(self) -> dict[int, float]:
        """This rank's share of the loss of each optimiser step of the epoch, which ends with this call; shares sum to the loss."""
        shares = {iteration: float(loss) for iteration, loss in self._loss.items()}
        self.errors = self._errors
        self.begin(self.epoch + 1)
        return shares

    def evaluate(self, deal: Deal) -> MaskedErrors:
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
        self._batch[task.unit] = self.feed.read(self._starts[task.unit])

    def _gather(self, task: Task) -> None:
        if task.unit in self._batch:  # a block that has arrived
            self._batch[task.unit] = self.feed.cut(_here(self._batch[task.unit]), self._starts[task.unit])
        else:
            self._read(task)

    def _send(self, task: Task) -> None:
        self._batch[task.unit] = self._batch[task.unit].to(self.device, non_blocking=True)

    def _forward(self, task: Task) -> None:
        batch = _here(self._batch.pop(task.unit))
        with torch.set_grad_enabled(task.step != VALIDATE):
            prediction, target = self._predicted(batch)
            if task.step == VALIDATE:
                self._errors = self._errors + MaskedErrors.of(prediction, target)
                return
            total, count = masked_sum(prediction, target)
        self._graph[task.unit] = total / count.clamp(min=1) if self.averaged else total
        self._flat[-2:] = torch.stack([total.detach(), count.to(total.dtype)])

    def _backward(self, task: Task) -> None:
        self._graph.pop(task.unit).backward()

    def _allreduce(self, task: Task) -> None:
        if task.step == VALIDATE:
            self.collective.all_reduce(self._errors.sums)
            return
        self._own = self._flat[-2:].clone()
        self.collective.all_reduce(self._flat)

    def _optimize(self, task: Task) -> None:
        own = self._own if self.collective.ranks > 1 else self._flat[-2:].clone()
        readings = self._flat[-1].clamp(min=1)
        if self.averaged:
            self._flat[:-2].div_(self.collective.ranks)
            self._loss[task.iteration] = own[0] / own[1].clamp(min=1) / self.collective.ranks
        else:
            self._flat[:-2].div_(readings)
            self._loss[task.iteration] = own[0] / readings
        self.optimizer.step()
        self._flat.zero_()


def _here(tensor: Tensor) -> Tensor:
    """A tensor that another stream has brought, not to be overwritten before this one has read it."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor
