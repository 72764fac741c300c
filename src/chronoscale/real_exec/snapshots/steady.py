"""Steady plans: one schedule for every epoch, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.snapshots.judged import JudgedPlans
from chronoscale.real_exec.snapshots.material import shared
from chronoscale.real_exec.snapshots.scored import Judging, Trainer
from chronoscale.real_exec.training.plans import Plan
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice

STAGE = "training"
Bind = Callable[[Item, Schedule, ModelChoice, Context], Trainer]


class SteadyPlans(JudgedPlans):
    """The job's own."""

    def __init__(self, bind: Bind, judging: Judging, job: Job, schedule: Schedule, context: Context) -> None:
        """Raises UserError when the schedule is for another number of ranks, and as `bind`."""
        item = job.items[0]
        trainer = bind(item, context.admit(schedule), job.model, context)
        trainer.adapts = True
        judge = judging(shared(item, job.model, context), item.hyper, context, schedule)
        super().__init__(judge, Path(job.out), context, schedule.name)
        self.learner = trainer.learner
        self._trainer, self._plan = trainer, Plan(0, STAGE, schedule, self.scored(trainer))

    def at(self, epoch: int) -> Plan:
        """The plan, its draws those of the epoch."""
        self._trainer.epoch = epoch
        return self._plan
