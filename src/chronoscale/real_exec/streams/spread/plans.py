"""Plans on events whose memory is spread over ranks: one schedule for every epoch; the best epoch is kept, and tested at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.streams.material import Material
from chronoscale.real_exec.streams.plans import STAGE
from chronoscale.real_exec.streams.spread.evaluation import evaluate
from chronoscale.real_exec.streams.spread.kept import Kept
from chronoscale.real_exec.streams.spread.program import SpreadProgram
from chronoscale.real_exec.training.best import best_of, keep_best, restore_best
from chronoscale.real_exec.training.checkpoint import replaced
from chronoscale.real_exec.training.plans import TEST, Plan, Plans
from chronoscale.real_exec.training.tested import checked
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.spread.sharing import Sharing


class SpreadPlans(Plans):
    """As `EventPlans`; every rank keeps its own rows of memory in a file of its own (`Kept`), as none has them all."""

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Raises UserError when the schedule is for another number of ranks, and as `Material.of`."""
        item = job.items[0]
        self._schedule, self._context, self._folder = context.admit(schedule), context, Path(job.out)
        self._patience = item.hyper.events.patience
        material = Material.of(item, job.model, context)
        self.learner = material.learner(job.model, context, Sharing.of(schedule).smooth)
        self._program = SpreadProgram(schedule, material, self.learner, item.hyper, context)
        self._kept = Kept(self._folder, context)
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        """The plan, from this epoch on."""
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan

    def kept(self) -> Mapping[str, Tensor]:
        """Which of the ranks' files is of this epoch."""
        return self._kept.record()

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Of this rank's file. Raises KeyError or RuntimeError for another model's or epoch's."""
        self._program.restore(self._kept.read(kept))

    def over(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """After the epochs of these scores: every rank keeps its memory, and the first one the model where the last is the best."""
        best, done = best_of(scores), len(scores)
        if self._program.epoch == done:  # not where an earlier process has trained it
            self._kept.write(done, self._program.tables(), {best + 1, best_of(scores[:-1]) + 1})
            if best == done - 1 and self._context.rank == 0:
                keep_best(self._folder, best, self.learner.model, self._kept.record())
        return 0 < self._patience <= done - 1 - best

    def best(self, scores: Sequence[Mapping[str, float]]) -> int | None:
        """As `best_of`."""
        return best_of(scores)

    def end(self) -> None:
        """Score the test events with the best epoch's model, its memory going on."""
        self._context.collective.barrier()
        best = restore_best(self._folder, self.learner.model, self.restore)
        self._program.epoch = best
        tested = checked(evaluate(self._program), self._schedule.name, "after training")
        if self._context.rank == 0:
            replaced(self._folder / TEST, json.dumps(tested).encode())
