"""SpreadPlans: one schedule for every epoch, memory spread over ranks; the best epoch is kept, and tested at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from time import perf_counter

from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import require_finite
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.plans import STAGE
from chronoscale.real_exec.streams.spread.evaluation import evaluate
from chronoscale.real_exec.streams.spread.memory_files import MemoryFiles
from chronoscale.real_exec.streams.spread.program import SpreadProgram
from chronoscale.real_exec.training.best_epoch import best_epoch
from chronoscale.real_exec.training.best_plans import BestPlans
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import PREDICTED, TEST, EvaluationRecord
from chronoscale.records import write_atomically
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.spread.sharing import Sharing


class SpreadPlans(BestPlans):
    """Plans of a training on events whose node memory is spread over ranks: one schedule for all epochs.

    Every rank keeps its own rows of memory in a file of its own (`MemoryFiles`), as none has them all. In the job's folder, at the end:
    TEST, scores of the test events.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Make the program. Raises UserError when the schedule is for another number of ranks, and as `StreamMaterial.of`."""
        super().__init__(job, context, job.items[0].hyper.validate, state=True)
        item = job.items[0]
        self._schedule = context.require_ranks(schedule)
        material = StreamMaterial.of(item, job.model, context)
        self.learner = material.learner(job.model, context, Sharing.of(schedule).smooth)
        self._program = SpreadProgram(schedule, material, self.learner, item.hyper, context)
        self._kept = MemoryFiles(self._folder, context)
        self._kept.require_ranks(context.ranks)
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return which of the ranks' files of node memory is of this epoch, for a checkpoint."""
        return self._kept.record()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore node memory from this rank's file. Raises KeyError or RuntimeError for another model's or epoch's."""
        self._program.restore(self._kept.read(state))

    def after_epoch(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """Save every rank's node memory, and the model where the last epoch is the best; return whether patience is over, so that training
        ends.

        scores: of all epochs so far, by key.
        """
        best, done = best_epoch(scores), len(scores)
        if self._program.epoch == done:  # not where an earlier process has trained it
            self._kept.write(done, self._program.tables(), {best + 1, best_epoch(scores[:-1]) + 1})
            return super().after_epoch(scores)
        return 0 < self._patience <= done - 1 - best

    def end(self) -> None:
        """Score the test events with the best epoch's model, its node memory going on, and write the scores."""
        best = self.take_best()
        assert best is not None
        self._program.epoch = best
        start = perf_counter()
        tested = require_finite(
            evaluate(self._program, self._folder / PREDICTED if self._writes_predictions else None), self._schedule.name, "after training"
        )
        if self._context.rank == 0:
            write_atomically(self._folder / TEST, json.dumps(tested).encode())
            EvaluationRecord(test_s=0.0 if self._context.virtual else perf_counter() - start).save(self._folder)
