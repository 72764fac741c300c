"""SpreadProgram: one rank's batches of events where node memory is spread over ranks, executed."""

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
from chronoscale.datasets.arrays import Bool, Int64
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.datasets.streams.event_numbers import relative_to, row_index
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.sending import brought
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.streams.batches import BatchProgram
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.spread.batch import SpreadBatch
from chronoscale.real_exec.streams.spread.common import Common
from chronoscale.real_exec.streams.spread.contributing import Prospect
from chronoscale.real_exec.streams.spread.held import Held
from chronoscale.real_exec.streams.spread.history import History
from chronoscale.real_exec.streams.spread.settling import Settling, Unsettled
from chronoscale.real_exec.streams.spread.steps import SpreadSteps, Wanted
from chronoscale.real_exec.streams.spread.tuning import EARLY, Tuning
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.spread.phase import COMMON, IDS, OWN, ROWS
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.workload import Hyper


class SpreadProgram(BatchProgram):
    """Executes one rank's rows. Memory begins empty with each epoch; replicas (DistTGL) go on: in epoch e, rank r has span r + e of time,
    and begins anew where that is the first one."""

    def __init__(self, schedule: Schedule, material: Material, learner: Learner[StreamModel], hyper: Hyper, context: Context) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        self._schedule, self.sharing, given = schedule, Sharing.of(schedule), hyper.events.sharing
        self.spreading = DistributedStream(self.data, self.sharing.spread(hyper), schedule.ranks, hyper.variant)
        self.sampling = self.sharing.sampling(hyper, material.shape, stream_statistics(self.data))
        self.held = Held(material, self.spreading.parts, context.rank)
        begun = float(self.data.whole.stream.t[0])
        self.history = History(self.held.shared.size, material.shape.memory, begun)
        self.common = Common(self.held, self.history, given.alpha, hyper.variant != "as-published")
        mixed = self.history if self.sharing.smooth and schedule.ranks > 1 else None  # one rank alone hears of nothing
        self.steps: SpreadSteps = SpreadSteps(material, learner.model, self.held, mixed, self.sampling, hyper, context)
        self.settling = Settling(self.sharing, self.spreading, self.held, self.common, self.steps, self.sampling.delivers)
        parts = range(self.data.training_events), self.data.split.validation
        limits = hyper.batch_size, hyper.batches, hyper.events.every
        self.allotments = tuple(self.spreading.assignment(part, *limits, bool(which)) for which, part in enumerate(parts))
        self._lock = Lock()
        self._decays = self.sharing.neighbours == "decay"
        self.theta, self._tuning = given.theta, Tuning() if given.adaptive else None
        self._run: Mapping[Op, Callable[[Task], None]] = {
            Op.SAMPLE: self._sample,
            Op.GATHER: lambda task: self.steps.gather(self._batch[task.unit]),
            Op.H2D: self._send,
            Op.ALLTOALL: self._exchange,
            Op.MEMORY_READ: lambda task: self.steps.read(self._batch[task.unit]),
            Op.MEMORY_UPDATE: lambda task: self.graded(task, self.steps.update),
            Op.AGGREGATE: lambda task: self.graded(task, lambda batch: self.steps.layer(batch, task.layer)),
            Op.FORWARD: lambda task: self.graded(task, lambda batch: self.score(task, batch)),
            Op.BACKWARD: self.backward,
            Op.ALLREDUCE: self.all_reduce,
            Op.OPTIMIZE: self._step,
            Op.ALLGATHER: lambda task: self.settling.speak(self._iteration(task)),
            Op.D2H: self._bring_back,
            Op.MEMORY_WRITE: self._write,
        }

    @property
    def turn(self) -> int:
        """Which rank's batches this one has in this epoch."""
        return (self.rank + self.epoch) % self._schedule.ranks if self.sharing.replicated else self.rank

    def begin(self) -> None:
        """As BatchProgram says."""
        super().begin()
        if self.sharing.replicated:
            self.tasks = tasks_of(self._schedule, self.turn)
        if not self.sharing.replicated or self.turn == 0:
            self.held.state.reset()
            self.history.reset()
        if self.hyper.events.every > 1:
            self.held.state.imagine(self.seed)
        self.steps.fetched = self.steps.sent_back = self.common.changed = self.common.spoken = 0
        self._batch: dict[int, SpreadBatch] = {}
        self._left: set[int] = set()
        self._wanted: dict[int, Wanted] = {}
        self._foreseen: dict[int, Prospect] = {}
        self._brought: dict[int, tuple[Tensor, Tensor]] = {}
        self._settled: dict[int, Unsettled] = {}

    def run(self, task: Task) -> None:
        """As BatchProgram says; timed where theta and alpha follow the times, for which a GPU has to have ended."""
        if self._tuning is None or self.epoch >= EARLY or task.step == VALIDATE:
            return super().run(task)
        start = time.perf_counter()
        super().run(task)
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        self._tuning.took(task, time.perf_counter() - start)

    def finish(self) -> EpochResult:
        """As BatchProgram says, with what all ranks have exchanged."""
        found = super().finish()
        own = [self.steps.fetched, self.steps.sent_back, self.common.changed, self.common.spoken]
        totals = torch.tensor(own, dtype=torch.float64).to(self.device)
        self.collective.all_reduce(totals)
        names = ("fetched_bytes", "returned_bytes", "shared_changes", "shared_spoken")
        return replace(found, counts={name: int(value) for name, value in zip(names, totals.tolist(), strict=True)})

    def batch(self, unit: int) -> SpreadBatch:
        """As BatchProgram says."""
        return self._batch[unit]

    def leave(self, unit: int) -> None:
        """As BatchProgram says. It is asked for its gradients, and for its memory, by two threads where lanes overlap."""
        with self._lock:
            if unit in self._left:
                self._left.remove(unit)
                del self._batch[unit]
            else:
                self._left.add(unit)

    def together(self, task: Task) -> int:
        """As BatchProgram says."""
        allotment, iteration = self.place(task)
        return allotment.size(iteration)

    def seen(self) -> Bool:
        """As BatchProgram says."""
        allotment = self.allotments[1]
        found = np.zeros(len(allotment.batches.part), np.bool_)
        for iteration in range(allotment.iterations):
            found[row_index(relative_to(allotment.every_rank(iteration), allotment.batches.part.start))] = True
        return found

    def place(self, task: Task) -> tuple[RankAssignment, int]:
        """A task's batches, and its iteration among them."""
        validates = task.step == VALIDATE
        return self.allotments[validates], task.unit - self.allotments[0].iterations * validates

    def _sample(self, task: Task) -> None:
        (allotment, iteration), validates = self.place(task), task.step == VALIDATE
        own: Int64 = allotment.rank_events(iteration, self.turn)
        remote = self.theta if self.sharing.negatives else None
        drawn = self.rank, self.epoch, self.seed
        others = (self.fixed(own), None) if validates else self.spreading.negatives(own, *drawn, remote)
        seed = derive_key(self.seed, FIXED_EPOCH if validates else self.epoch)
        source, seat = self.spreading.source(validates), self.spreading.local_part(validates, self.rank)
        self._batch[task.unit] = self.steps.around(source, seat, own, others, allotment.before(iteration, self.turn), seed)
        self._foreseen[task.unit] = self.settling.foresee(allotment, (iteration, self.turn), source)

    def _send(self, task: Task) -> None:
        (self.steps.send if task.layer < 0 else self.steps.send_pending)(self._batch[task.unit])

    def _exchange(self, task: Task) -> None:
        batch = self._batch.get(task.unit)
        if task.layer == IDS:
            self._wanted[task.unit] = self.steps.ask(batch)
        elif task.layer == ROWS:
            self.steps.fetch(batch, self._wanted.pop(task.unit))
        else:
            self.settling.bring(self._iteration(task))

    def _step(self, task: Task) -> None:
        self.learner.step(task.iteration)
        if self._tuning is not None and self.epoch < EARLY:
            self.theta, self.common.alpha = self._tuning.theta(self.theta), self._tuning.alpha(self.common.alpha)
            self._tuning.over()
            self._sample_with(self.theta)

    def _bring_back(self, task: Task) -> None:
        """What the batch has done to memory, to the host, and what its mails are: on a GPU that is computed once memory is there, by the
        host's first row that asks."""
        memory, time = self.steps.ends(self._batch[task.unit])
        if self.device.type == "cuda":
            self._brought[task.unit] = brought(memory), brought(time)
        else:
            self._settled[task.unit] = self.settling.begin(self._foreseen.pop(task.unit), [(memory, time)])
        self.leave(task.unit)

    def _iteration(self, task: Task) -> Unsettled:
        """Under way; a rank without events has brought nothing back."""
        if task.unit not in self._settled:
            foreseen = self._foreseen.pop(task.unit, None)
            if foreseen is None:
                (allotment, iteration), source = self.place(task), self.spreading.source(task.step == VALIDATE)
                foreseen = self.settling.foresee(allotment, (iteration, self.turn), source)
            ends = self._brought.pop(task.unit) if task.unit in self._brought else self.steps.ends(None)
            self._settled[task.unit] = self.settling.begin(foreseen, [ends])
        return self._settled[task.unit]

    def _write(self, task: Task) -> None:
        if task.layer == OWN:
            self.settling.write(self._iteration(task))
        else:
            self.settling.hear(self._iteration(task))
        if task.layer == COMMON or not self.settling.words:
            del self._settled[task.unit]

    def settle(self, allotment: RankAssignment, iteration: int, ends: Sequence[tuple[Tensor, Tensor]]) -> None:
        """An iteration of events that are evaluated, at once."""
        foreseen = self.settling.foresee(allotment, (iteration, self.turn), self.spreading.source(True))
        self.settling.at_once(self.settling.begin(foreseen, [(memory.cpu(), time.cpu()) for memory, time in ends]))

    def tables(self) -> dict[str, Tensor]:
        """Memory, mailbox and history of the rank, and what was tuned, for a checkpoint."""
        tuned = {"tuned": torch.tensor([self.theta, self.common.alpha], dtype=torch.float64)}
        return {**self.held.state.tables(), **self.history.tables(), **tuned}

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """As `tables` gave them. Raises KeyError or RuntimeError for those of another model, stream or number of ranks."""
        self.held.state.restore(kept)
        for name, table in self.history.tables().items():
            if kept[name].shape != table.shape:
                raise RuntimeError(f"{name} is {list(kept[name].shape)}, expected {list(table.shape)}")
            table.copy_(kept[name])
        self.theta, self.common.alpha = kept["tuned"].tolist()
        self._sample_with(self.theta)

    def _sample_with(self, theta: float) -> None:
        if self._decays:
            self.steps.boundary(theta)
