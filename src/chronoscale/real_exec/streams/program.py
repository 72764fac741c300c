"""EventProgram: executes one rank's batches of events, with a copy of all node memory on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from torch import Tensor

from chronoscale.batching.streams.caching.loading import CachedRows
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.presampling import distinct_rows
from chronoscale.datasets.arrays import Bool
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import acquire, to_host
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.batch_program import BatchProgram
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.sampling_threads import SamplingThreads
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.real_exec.streams.updates import UpdatedNodes, contribution, write_updates
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.workload import Hyper


class EventProgram(BatchProgram):
    """A rank's program for batches of events, where every rank has a copy of all node memory.

    Memory begins each epoch empty (a probe's does not); negatives are drawn in every epoch.

    keeps_trained_state: whether this rank copies the tables of node memory as an epoch's training has left them, before its validation, to
    `trained_state`, in host memory; else it is empty.
    """

    def __init__(self, schedule: Schedule, material: StreamMaterial, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        feeding = StreamFeeding.of(schedule)
        self.sampling, loading = feeding.sampling(hyper, material.shape), feeding.loading(hyper, material.shape)
        self.state = material.state()
        self.keeps_trained_state = False
        self.trained_state: Mapping[str, Tensor] = {}
        self._lone = self._lone and not feeding.operators
        ranks, limits = schedule.ranks, (hyper.batches, hyper.events.every)
        residents = self.data.residents(ranks, hyper.batch_size, self.sampling, hyper.batches, loading)
        self.steps = Steps(material, learner.model, self.state, self.sampling, residents, context)
        learner.model.operators = feeding.operators
        self._sampling_threads = None
        if feeding.bound:
            self._sampling_threads = context.share(
                ("crew", self.data.folder, hyper), lambda: SamplingThreads(self.data, hyper, self.sampling, context)
            )
            if self._sampling_threads.cpus:
                self.steps.threads = 0
        self.deals = tuple(self.data.assignment(validates, ranks, hyper.batch_size, *limits) for validates in (False, True))
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.SAMPLE: self._sample,
            Op.GATHER: self._gather,
            Op.H2D: self._send,
            Op.MEMORY_READ: lambda task: self.steps.read(self._batch[task.unit]),
            Op.MEMORY_UPDATE: lambda task: self.run_with_grad(task, self.steps.update),
            Op.AGGREGATE: lambda task: self.run_with_grad(task, lambda batch: self.steps.layer(batch, task.layer)),
            Op.FORWARD: lambda task: self.run_with_grad(task, lambda batch: self.score(task, batch)),
            Op.BACKWARD: self.backward,
            Op.ALLREDUCE: self.all_reduce,
            Op.OPTIMIZE: lambda task: self.learner.step(task.iteration),
            Op.ALLGATHER: self._gather_memory,
            Op.D2H: self._bring_back,
            Op.MEMORY_WRITE: self._write,
        }

    def begin(self) -> None:
        super().begin()
        if self._sampling_threads is not None:
            self._sampling_threads.begin()
        self.state.reset()
        self.trained_state = {}
        if self.hyper.events.every > 1:
            self.state.imagine(self.seed)
        self._ahead: list[CachedRows] = []
        self._batch: dict[int, Batch] = {}
        self._updated: dict[int, UpdatedNodes] = {}
        self._memory: dict[int, Tensor] = {}

    def finish(self) -> EpochResult:
        if self._sampling_threads is not None:
            self._sampling_threads.end()
        return super().finish()

    def batch(self, unit: int) -> Batch:
        return self._batch[unit]

    def release(self, unit: int) -> None:
        if not self.material.shape.memory:
            del self._batch[unit]

    def iteration_events(self, task: Task) -> int:
        deal, iteration = self._place(task)
        return len(deal.all_events(iteration))

    def predicted_events(self) -> Bool:
        deal = self.deals[1]
        predicted = np.zeros(len(deal.part), np.bool_)
        for iteration in range(deal.iterations):
            whole = deal.all_events(iteration)
            predicted[whole.start - deal.part.start : whole.stop - deal.part.start] = True
        return predicted

    def _place(self, task: Task) -> tuple[BatchAssignment, int]:
        """Return the batches that a task belongs to, and its iteration among them."""
        validates = task.step == VALIDATE
        return self.deals[validates], task.unit - self.deals[0].iterations * validates

    def _source(self, task: Task) -> IndexedStream:
        return self.data.source(task.step == VALIDATE, self.sampling)

    def _sample(self, task: Task) -> None:
        (deal, iteration), validates = self._place(task), task.step == VALIDATE
        part, before = deal.rank_events(iteration, self.rank), deal.all_events(iteration).start
        if validates:
            others = self.fixed_negatives(part)
        else:
            others = self.data.negatives_of_training(part, self.epoch, self.seed, self.sampling.all_nodes)
        source, seed = self._source(task), derive_key(self.seed, FIXED_EPOCH if validates else self.epoch)
        if task.layer == 0:  # to know which rows will be asked for again
            self._ahead.append(distinct_rows(self.steps.find(source, part, others, before, seed)[1], source))
            return
        if self._ahead:
            self.steps.residents, self._ahead = self.steps.residents.for_epoch(self._ahead), []
        self._batch[task.unit] = self.steps.sample(source, part, others, before, seed)
        if self.material.shape.memory:
            self._updated[task.unit] = UpdatedNodes.of(source, deal, iteration)

    def _gather(self, task: Task) -> None:
        """Gather rows on the host; or, on the device, put rows where they are read: features, and node memory (layer 0)."""
        batch = self._batch[task.unit]
        if task.lane is Lane.HOST:
            self.steps.gather(batch)
        elif task.layer < 0:
            self.steps.expand(batch)
        else:
            batch.expand_memory()

    def _send(self, task: Task) -> None:
        batch = self._batch[task.unit]
        if task.layer < 0:
            self.steps.send(batch)
        else:
            self.steps.send_memory(batch)

    def _own(self, task: Task) -> Tensor:
        """Return the memory of the nodes that this rank writes; a rank without events has not sampled, and finds only now which
        these are."""
        if task.unit not in self._updated:
            self._updated[task.unit] = UpdatedNodes.of(self._source(task), *self._place(task))
        return contribution(self._updated[task.unit], self._batch.get(task.unit), self.rank, self.material.shape.memory, self.device)

    def _gather_memory(self, task: Task) -> None:
        own = self._own(task)
        self._memory[task.unit] = self.collective.all_gather(own, self._updated[task.unit].counts)

    def _bring_back(self, task: Task) -> None:
        memory = acquire(self._memory.pop(task.unit) if task.unit in self._memory else self._own(task))
        self._memory[task.unit] = to_host(memory)

    def _write(self, task: Task) -> None:
        deal, iteration = self._place(task)
        if task.step == VALIDATE and not iteration and self.keeps_trained_state:
            self.trained_state = {name: table.clone() for name, table in self.state.tables().items()}
        source = self._source(task)
        updated, memory = self._updated.pop(task.unit), self._memory.pop(task.unit)
        write_updates(deal.all_events(iteration), updated, memory, source, self.learner.model, self.state, self.sampling.delivers)
        self._batch.pop(task.unit, None)
