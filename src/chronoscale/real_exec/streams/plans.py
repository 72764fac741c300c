"""EventPlans: one schedule for every epoch; the best epoch's model, memory and mailbox are kept, and tested at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import require_finite
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.streams.evaluation import catch_up, evaluate
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.training.best_plans import BestPlans
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import PREDICTED, TEST
from chronoscale.records import write_atomically
from chronoscale.strategies.schedule import Schedule

STAGE = "training"


class EventPlans(BestPlans):
    """Plans of a training on events whose node memory every rank has in full: one schedule for all epochs.

    In the job's folder, at the end: TEST, scores of the test events. An epoch's draws depend only on the seed and its number, and its node
    memory begins empty: a run that was cut off ends where one that was not does.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Make the program. Raises UserError when the schedule is for another number of ranks, and as `StreamMaterial.of`."""
        super().__init__(job, context, job.items[0].hyper.validate, state=True)
        item = job.items[0]
        self._schedule = context.require_ranks(schedule)
        material = StreamMaterial.of(item, job.model, context)
        self.learner = material.learner(job.model, context)
        self._program = EventProgram(schedule, material, self.learner, item.hyper, context)
        self._plan: Plan | None = None

    def at(self, epoch: int) -> Plan:
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return node memory and mailbox as the epoch has left them on this rank, for a checkpoint."""
        return self._program.state.tables()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._program.state.restore(state)

    def end(self) -> None:
        """Score the test events with the best epoch's model, its node memory going on, and write the scores."""
        self.take_best()
        if not self._program.hyper.validate:
            catch_up(self._program)
        tested = require_finite(
            evaluate(self._program, self._folder / PREDICTED if self._writes_predictions else None), self._schedule.name, "after training"
        )
        if self._context.rank == 0:
            write_atomically(self._folder / TEST, json.dumps(tested).encode())
