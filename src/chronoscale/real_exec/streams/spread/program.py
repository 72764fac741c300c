"""SpreadProgram: executes one rank's batches of events where node memory is spread over ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.ranks.remote_reads import remote_row_cache
from chronoscale.batching.streams.ranks.remote_row_cache import RemoteRowCache
from chronoscale.datasets.arrays import Bool, Int64
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.datasets.streams.event_numbers import relative_to, row_index
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.execution.transfers import to_host
from chronoscale.real_exec.streams.batch_program import BatchProgram
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.batch import SpreadBatch
from chronoscale.real_exec.streams.spread.contributions import ContributionPlan
from chronoscale.real_exec.streams.spread.memory_group import MemoryGroup
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.memory_updates import MemoryUpdates, PendingUpdate
from chronoscale.real_exec.streams.spread.shared_history import SharedHistory
from chronoscale.real_exec.streams.spread.shared_nodes import SharedNodes
from chronoscale.real_exec.streams.spread.steps import RemoteRequests, SpreadSteps
from chronoscale.real_exec.streams.spread.tuning import EARLY, Tuning
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.spread.phase import COMMON, IDS, OWN, ROWS, SYNCHRONISED_ROWS
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.workload import Hyper


class SpreadProgram(BatchProgram):
    """A rank's program for batches of events whose node memory is spread over ranks (DistTGL, MemShare).

    Memory begins empty with each epoch.

    Replicas (DistTGL), and groups of ranks, go on instead: in epoch e, group g has time span g + e, and begins anew where that is the first
    one.
    """

    def __init__(self, schedule: Schedule, material: StreamMaterial, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        self._schedule = schedule
        self.sharing = Sharing.of(schedule)
        options = hyper.events.sharing
        self.spreading = context.share_between_ranks(
            ("spread", self.data.folder, schedule.name, hyper),
            lambda: DistributedStream(self.data, self.sharing.spread(hyper), schedule.ranks, hyper.variant),
        )
        self.sampling = self.sharing.sampling(hyper, material.shape, stream_statistics(self.data))
        self.group = MemoryGroup(context, self.spreading.members)
        self.memory_part = MemoryPart(material, self.spreading.parts, self.group.part)
        first_time = float(self.data.whole.stream.t[0])
        self.history = SharedHistory(self.memory_part.shared.size, material.shape.memory, first_time)
        self.common = SharedNodes(self.memory_part, self.history, options.alpha, hyper.variant != "as-published")
        smoothed = self.history if self.sharing.smooth and self.group.members > 1 else None  # one rank synchronises nothing
        self.steps: SpreadSteps = SpreadSteps(material, learner.model, self.memory_part, smoothed, self.sampling, hyper, self.group)
        self.memory_updates = MemoryUpdates(self.sharing, self.spreading, self.memory_part, self.common, self.steps, self.sampling.delivers)
        parts = range(self.data.training_events), self.data.split.validation
        limits = hyper.batch_size, hyper.batches, hyper.events.every
        self.allotments = tuple(self.spreading.assignment(part, *limits, bool(which)) for which, part in enumerate(parts))
        self._caching = self.sharing.spread(hyper) if self.sharing.cached and schedule.ranks > 1 else None
        if self._caching is not None:
            self.steps.allocate_cache(self._caching.cached_rows)
        self._lock = Lock()
        self._decays = self.sharing.neighbours in ("decay", "decay-cached")
        if options.adaptive:
            context.require_times("training.adaptive: theta and alpha follow measured times")
        self.theta, self._tuning = options.theta, Tuning() if options.adaptive else None
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.SAMPLE: self._sample,
            Op.GATHER: lambda task: self.steps.gather(self._batch[task.unit]),
            Op.H2D: self._send,
            Op.ALLTOALL: self._exchange,
            Op.MEMORY_READ: lambda task: self.steps.read(self._batch[task.unit]),
            Op.MEMORY_UPDATE: lambda task: self.run_with_grad(task, self.steps.update),
            Op.AGGREGATE: lambda task: self.run_with_grad(task, lambda batch: self.steps.layer(batch, task.layer)),
            Op.FORWARD: lambda task: self.run_with_grad(task, lambda batch: self.score(task, batch)),
            Op.BACKWARD: self.backward,
            Op.ALLREDUCE: self.all_reduce,
            Op.OPTIMIZE: self._step,
            Op.ALLGATHER: lambda task: self.memory_updates.gather_shared(self._iteration(task)),
            Op.D2H: self._bring_back,
            Op.MEMORY_WRITE: self._write,
        }

    @property
    def turn(self) -> int:
        """Return the rank whose batches this rank runs in the current epoch, of its own part (DistTGL rotates them over its replicas)."""
        return (self.rank + self.epoch * self.group.members) % self._schedule.ranks

    def begin(self) -> None:
        super().begin()
        if self.group.members < self._schedule.ranks:
            self.tasks = tasks_of(self._schedule, self.turn)
        if self.turn < self.group.members:
            self.memory_part.state.reset()
            self.history.reset()
        if self.hyper.events.every > 1:
            self.memory_part.state.imagine(self.seed)
        self.steps.fetched = self.steps.sent_back = self.common.changes = self.common.sent_changes = 0
        self._caches = [self.cache(bool(which), allotment) for which, allotment in enumerate(self.allotments)]
        self._batch: dict[int, SpreadBatch] = {}
        self._released: set[int] = set()
        self._requests: dict[int, RemoteRequests] = {}
        self._plans: dict[int, ContributionPlan] = {}
        self._host_memory: dict[int, tuple[Tensor, Tensor]] = {}
        self._updates: dict[int, PendingUpdate] = {}

    def run(self, task: Task) -> None:
        """Execute one row on this rank; in early epochs it is timed, for MemShare's theta and alpha to follow the times, and a GPU is
        waited for.
        """
        if self._tuning is None or self.epoch >= EARLY or task.step == VALIDATE:
            return super().run(task)
        start = time.perf_counter()
        super().run(task)
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        self._tuning.add(task, time.perf_counter() - start)

    def finish(self) -> EpochResult:
        """Return losses, validation scores, and counts of what all ranks have exchanged in the epoch."""
        result = super().finish()
        local_counts = [self.steps.fetched, self.steps.sent_back, self.common.changes, self.common.sent_changes]
        totals = torch.tensor(local_counts, dtype=torch.float64).to(self.device)
        self.collective.all_reduce(totals)
        names = ("fetched_bytes", "returned_bytes", "shared_changes", "shared_spoken")
        return replace(result, counts={name: int(value) for name, value in zip(names, totals.tolist(), strict=True)})

    def cache(self, validates: bool, allotment: RankAssignment) -> RemoteRowCache | None:
        """Return an empty cache of other ranks' rows for an allotment's iterations; None for a strategy that caches none."""
        if self._caching is None:
            return None
        return remote_row_cache(self.spreading.source(validates), allotment, self._caching, self.sampling.delivers)

    def batch(self, unit: int) -> SpreadBatch:
        return self._batch[unit]

    def release(self, unit: int) -> None:
        """Release this rank's batch after both its gradients and its memory have been read, by two threads where lanes overlap."""
        with self._lock:
            if unit in self._released:
                self._released.remove(unit)
                del self._batch[unit]
            else:
                self._released.add(unit)

    def iteration_events(self, task: Task) -> int:
        allotment, iteration = self.place(task)
        return allotment.size(iteration)

    def predicted_events(self) -> Bool:
        allotment = self.allotments[1]
        predicted = np.zeros(len(allotment.batches.part), np.bool_)
        for iteration in range(allotment.iterations):
            predicted[row_index(relative_to(allotment.every_rank(iteration), allotment.batches.part.start))] = True
        return predicted

    def place(self, task: Task) -> tuple[RankAssignment, int]:
        """Return which part of the events, training or validation, a row belongs to, as assigned to ranks, and its iteration among them."""
        validates = task.step == VALIDATE
        return self.allotments[validates], task.unit - self.allotments[0].iterations * validates

    def _sample(self, task: Task) -> None:
        (allotment, iteration), validates = self.place(task), task.step == VALIDATE
        own: Int64 = allotment.rank_events(iteration, self.turn)
        remote = self.theta if self.sharing.negatives else None
        drawn = self.rank, self.epoch, self.seed
        others = (self.fixed_negatives(own), None) if validates else self.spreading.negatives(own, *drawn, remote)
        seed = derive_key(self.seed, FIXED_EPOCH if validates else self.epoch)
        source, local_part = self.spreading.source(validates), self.spreading.local_part(validates, self.rank)
        before, cache = allotment.before(iteration, self.turn), self._caches[validates]
        self._batch[task.unit] = self.steps.around(source, local_part, own, others, before, seed, cache, iteration)
        self._plans[task.unit] = self.memory_updates.plan(allotment, (iteration, self.turn), source)

    def _send(self, task: Task) -> None:
        (self.steps.send if task.layer < 0 else self.steps.send_memory)(self._batch[task.unit])

    def _exchange(self, task: Task) -> None:
        batch = self._batch.get(task.unit)
        if task.layer == IDS:
            self._requests[task.unit] = self.steps.ask(batch)
        elif task.layer == ROWS:
            self.steps.fetch(batch, self._requests.pop(task.unit))
        elif task.layer == SYNCHRONISED_ROWS:
            self.memory_updates.gather_shared(self._iteration(task))
        else:
            self.memory_updates.return_rows(self._iteration(task))

    def _step(self, task: Task) -> None:
        self.learner.step(task.iteration)
        if self._tuning is not None and self.epoch < EARLY:
            self.theta, self.common.alpha = self._tuning.theta(self.theta), self._tuning.alpha(self.common.alpha)
            self._tuning.decay()
            self._sample_with(self.theta)

    def _bring_back(self, task: Task) -> None:
        """Copy what the batch has done to memory to the host, and compute its messages.

        On a GPU, messages are computed once memory has arrived, by the first row of the host that asks for them.
        """
        memory, time = self.steps.ends(self._batch[task.unit])
        if self.device.type == "cuda":
            self._host_memory[task.unit] = to_host(memory), to_host(time)
        else:
            self._updates[task.unit] = self.memory_updates.begin(self._plans.pop(task.unit), [(memory, time)])
        self.release(task.unit)

    def _iteration(self, task: Task) -> PendingUpdate:
        """Return the update of a task's iteration, begun where needed; a rank without events has copied nothing back."""
        if task.unit not in self._updates:
            plan = self._plans.pop(task.unit, None)
            if plan is None:
                (allotment, iteration), source = self.place(task), self.spreading.source(task.step == VALIDATE)
                plan = self.memory_updates.plan(allotment, (iteration, self.turn), source)
            ends = self._host_memory.pop(task.unit) if task.unit in self._host_memory else self.steps.ends(None)
            self._updates[task.unit] = self.memory_updates.begin(plan, [ends])
        return self._updates[task.unit]

    def _write(self, task: Task) -> None:
        if task.layer == OWN:
            self.memory_updates.write(self._iteration(task))
        else:
            self.memory_updates.write_shared(self._iteration(task))
        if task.layer == COMMON or not self.memory_updates.shared_rows:
            del self._updates[task.unit]

    def settle(self, allotment: RankAssignment, iteration: int, ends: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Write what evaluated events of an iteration do to node memory, all at once, on every rank.

        allotment: which events each rank has. ends: memory [2, B, H] of its events' sources and destinations, and its time, in one part or
        more.
        """
        plan = self.memory_updates.plan(allotment, (iteration, self.turn), self.spreading.source(True))
        self.memory_updates.run_all(self.memory_updates.begin(plan, [(memory.cpu(), time.cpu()) for memory, time in ends]))

    def tables(self) -> dict[str, Tensor]:
        """Return this rank's node memory, mailbox and history of shared nodes, and what was tuned, by name, for a checkpoint."""
        tuned = {"tuned": torch.tensor([self.theta, self.common.alpha], dtype=torch.float64)}
        return {**self.memory_part.state.tables(), **self.history.tables(), **tuned}

    def restore(self, tables: Mapping[str, Tensor]) -> None:
        """Restore this rank's node memory from what `tables` returned.

        Raises KeyError or RuntimeError for another model, stream or number of ranks.
        """
        self.memory_part.state.restore(tables)
        for name, table in self.history.tables().items():
            if tables[name].shape != table.shape:
                raise RuntimeError(f"{name} is {list(tables[name].shape)}, expected {list(table.shape)}")
            table.copy_(tables[name])
        self.theta, self.common.alpha = tables["tuned"].tolist()
        self._sample_with(self.theta)

    def _sample_with(self, theta: float) -> None:
        if self._decays:
            self.steps.boundary(theta)
