"""EventProgram: one rank's batches of events, executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from chronoscale.cuda_ext.backend import missing
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.deal import Deal
from chronoscale.datasets.streams.draws import key_of
from chronoscale.datasets.streams.loading import Cached
from chronoscale.datasets.streams.prepared import FIXED
from chronoscale.datasets.streams.presampled import different
from chronoscale.datasets.streams.source import Source
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.learner import Learner
from chronoscale.real_exec.program import EpochResult, Losses, Program
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.crew import Crew
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.outcome import Outcome
from chronoscale.real_exec.streams.sending import sent
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.real_exec.streams.updates import Updated, contribution, settle
from chronoscale.real_exec.task import Task, tasks_of
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.phase import VALIDATE
from chronoscale.strategies.workload import Hyper

DROPOUT = 3  # what a seed is for, beside what `negatives` draws


class EventProgram(Program):
    """Executes one rank's rows of an epoch on events. A pass is an epoch: node memory begins empty (a probe's does not), and negatives are
    drawn anew.

    The loss is the mean over an iteration's events, on whichever ranks they are: the cross entropy of the destination and that of the
    negative, added (TGN's and TGL's code), or that of the source's label.
    """

    def __init__(self, schedule: Schedule, material: Material, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        self.tasks, self.material, self.learner, self.hyper = tasks_of(schedule, context.rank), material, learner, hyper
        self.rank, self.device, self.collective = context.rank, context.device, context.collective
        feeding, self.data = Feeding.of(schedule), material.data
        self.sampling, loading = feeding.sampling(hyper, material.shape), feeding.loading(hyper, material.shape)
        self.state, self.epoch, self.seed = material.state(), 0, context.settings.seed
        # Where our kernels attend, what is left to torch is short; its threads spin after it, and would keep the kernels' from the cores.
        self._lone = self.device.type == "cpu" and material.shape.spatial == "attention" and not feeding.operators
        self._lone = self._lone and missing("cpu") is None
        self._threads = context.settings.threads
        ranks, limits = schedule.ranks, (hyper.batches, hyper.events.every)
        residents = self.data.residents(ranks, hyper.batch_size, self.sampling, hyper.batches, loading)
        self.steps = Steps(material, learner.model, self.state, self.sampling, residents, context)
        learner.model.operators = feeding.operators
        self._crew = None
        if feeding.bound:
            self._crew = context.share(("crew", self.data.folder, hyper), lambda: Crew(self.data, hyper, self.sampling.sources, context))
            if self._crew.cpus:
                self.steps.threads = 0
        self.deals = tuple(self.data.deal(validates, ranks, hyper.batch_size, *limits) for validates in (False, True))
        self._fixed = self.data.negatives("validation").dst if self.data.protocol.task == "link" and hyper.validate else None
        self._losses = Losses()
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.SAMPLE: self._sample,
            Op.GATHER: self._gather,
            Op.H2D: self._send,
            Op.MEMORY_READ: lambda task: self.steps.read(self._batch[task.unit]),
            Op.MEMORY_UPDATE: lambda task: self._graded(task, self.steps.update),
            Op.AGGREGATE: lambda task: self._graded(task, lambda batch: self.steps.layer(batch, task.layer)),
            Op.FORWARD: lambda task: self._graded(task, lambda batch: self._score(task, batch)),
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: self._all_reduce,
            Op.OPTIMIZE: lambda task: self.learner.step(task.iteration),
            Op.ALLGATHER: self._gather_memory,
            Op.D2H: self._bring_back,
            Op.MEMORY_WRITE: self._write,
        }

    def begin(self) -> None:
        """The next epoch, `epoch`: its number decides what is drawn. Until `finish`, torch may have one thread alone."""
        if self._lone:
            torch.set_num_threads(1)
        if self._crew is not None:
            self._crew.begin()
        self.state.reset()
        if self.hyper.events.every > 1:
            self.state.imagine(self.seed)
        self.learner.clear()
        torch.manual_seed(key_of(self.seed, DROPOUT, self.epoch, self.rank))
        self._ahead: list[Cached] = []
        self._batch: dict[int, Batch] = {}
        self._graph: dict[int, Tensor] = {}
        self._updated: dict[int, Updated] = {}
        self._memory: dict[int, Tensor] = {}
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
        if self._crew is not None:
            self._crew.end()
        self.epoch += 1
        return EpochResult(self._losses.finish(), self._scores())

    def _scores(self) -> dict[str, float]:
        deal = self.deals[1]
        for iteration in range(deal.iterations if self.hyper.validate else 0):
            whole = deal.together(iteration)
            self._outcome.seen[whole.start - deal.part.start : whole.stop - deal.part.start] = True
        if not self._outcome.seen.any():
            return {}
        return self._outcome.labels(self.data) if self._fixed is None else self._outcome.links(self.data, self._fixed >= 0)

    def width(self, negatives: int) -> int:
        """Logits of an event that is told from so many."""
        return 1 + negatives if self.data.protocol.task == "link" else self.material.shape.outputs

    def _place(self, task: Task) -> tuple[Deal, int]:
        """A task's batches, and its iteration among them."""
        validates = task.step == VALIDATE
        return self.deals[validates], task.unit - self.deals[0].iterations * validates

    def _source(self, task: Task) -> Source:
        return self.data.whole if task.step == VALIDATE else self.data.training

    def _sample(self, task: Task) -> None:
        (deal, iteration), validates = self._place(task), task.step == VALIDATE
        part, before = deal.own(iteration, self.rank), deal.together(iteration).start
        others = self._others(part) if validates else self.data.negatives_of_training(part, self.epoch, self.seed)
        source, seed = self._source(task), key_of(self.seed, FIXED if validates else self.epoch)
        if task.layer == 0:  # to know which rows will be asked for again
            self._ahead.append(different(self.steps.find(source, part, others, before, seed)[1], source))
            return
        if self._ahead:
            self.steps.residents, self._ahead = self.steps.residents.following(self._ahead), []
        self._batch[task.unit] = self.steps.sample(source, part, others, before, seed)
        if self.material.shape.memory:
            self._updated[task.unit] = Updated.of(source, deal, iteration)

    def _others(self, part: range) -> Int32:
        if self._fixed is None:
            return np.empty((len(part), 0), np.int32)
        first = self.deals[1].part.start
        return self._fixed[part.start - first : part.stop - first]

    def _gather(self, task: Task) -> None:
        """On the host, or on the device what stands elsewhere there: features, and node memory (layer 0)."""
        batch = self._batch[task.unit]
        if task.lane is Lane.HOST:
            self.steps.gather(batch)
        elif task.layer < 0:
            self.steps.expand(batch)
        else:
            batch.expand_pending()

    def _send(self, task: Task) -> None:
        batch = self._batch[task.unit]
        if task.layer < 0:
            self.steps.send(batch)
        else:
            self.steps.send_pending(batch)

    def _graded(self, task: Task, step: Callable[[Batch], None]) -> None:
        model = self.learner.model
        if model.training == (task.step == VALIDATE):
            model.train(not model.training)
        with torch.set_grad_enabled(task.step != VALIDATE):
            step(self._batch[task.unit])

    def _score(self, task: Task, batch: Batch) -> None:
        logits = self.steps.logits(batch)
        if task.step == VALIDATE:
            self._outcome.add(batch.events, logits)
            self._leave(task)
            return
        deal, iteration = self._place(task)
        loss = self._loss(batch, logits) / len(deal.together(iteration))
        self._graph[task.unit] = loss
        self._losses.add(task.iteration, loss)

    def _loss(self, batch: Batch, logits: Tensor) -> Tensor:
        """Summed over the batch's events."""
        if self.data.protocol.task == "link":
            truth = torch.zeros_like(logits)
            truth[:, 0] = 1
            return functional.binary_cross_entropy_with_logits(logits, truth, reduction="sum")
        labels = self.data.training.stream.labels
        assert labels is not None
        own = torch.from_numpy(np.array(labels[batch.events.start : batch.events.stop]))
        return functional.cross_entropy(logits, sent(own, self.device), reduction="sum")

    def _backward(self, task: Task) -> None:
        self._graph.pop(task.unit).backward()
        self._leave(task)

    def _leave(self, task: Task) -> None:
        """A batch whose computation is over: what its memory has become is all that may still be asked for."""
        batch = self._batch[task.unit]
        batch.below, batch.trees, batch.features, batch.edges = [], [], None, None
        if not self.material.shape.memory:
            del self._batch[task.unit]

    def _all_reduce(self, task: Task) -> None:
        if task.step == VALIDATE:
            self._outcome.together(self.collective)
        else:
            self.learner.all_reduce()

    def _own(self, task: Task) -> Tensor:
        """Memory of the nodes that this rank answers for; a rank without events has not sampled, and finds only now who writes."""
        if task.unit not in self._updated:
            self._updated[task.unit] = Updated.of(self._source(task), *self._place(task))
        return contribution(self._updated[task.unit], self._batch.get(task.unit), self.rank, self.material.shape.memory, self.device)

    def _gather_memory(self, task: Task) -> None:
        own = self._own(task)
        self._memory[task.unit] = self.collective.all_gather(own, self._updated[task.unit].counts)

    def _bring_back(self, task: Task) -> None:
        memory = self._memory.pop(task.unit) if task.unit in self._memory else self._own(task)
        brought = torch.empty(memory.shape, pin_memory=memory.is_cuda)  # so that the host need not wait for the device here
        self._memory[task.unit] = brought.copy_(memory, non_blocking=True)

    def _write(self, task: Task) -> None:
        deal, iteration = self._place(task)
        source = self._source(task)
        updated, memory = self._updated.pop(task.unit), self._memory.pop(task.unit)
        settle(deal.together(iteration), updated, memory, source, self.learner.model, self.state, self.sampling.delivers)
        self._batch.pop(task.unit, None)
