"""SignalPlans: one schedule for every epoch; in the end the test windows are predicted, once."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.program import SignalProgram
from chronoscale.real_exec.signals.recipe import learner_of, program_of
from chronoscale.real_exec.training.plans import Plan, Plans
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import SignalFeeding

STAGE = "training"


class SignalPlans(Plans):
    """Plans of a training on a signal: one schedule for all epochs. At the end the job's folder has TEST, the scores of the test windows.

    An epoch's order of windows depends only on the seed and its number: a run that was cut off ends at the weights of one that was not.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Make the untrained model. Raises UserError when the schedule is for another number of ranks."""
        self._job = job
        self._schedule = context.require_ranks(schedule)
        self._context = context
        self.learner = learner_of(job.items[0], job.model, context)
        self._plan: Plan | None = None

    @cached_property
    def _program(self) -> SignalProgram:
        """Return the program, which is bound at the first call: its preparation is done by then."""
        return program_of(self._job.items[0], self._schedule, self.learner, self._context)

    def at(self, epoch: int) -> Plan:
        if self._plan is None:
            self._program.epoch = epoch
            self._plan = Plan(0, STAGE, self._schedule, self._program)
        return self._plan

    def end(self) -> None:
        """Predict the test windows on all ranks, and write their scores."""
        deal = SignalFeeding.of(self._schedule).test(self._program.feed.windows, self._job.items[0].hyper, self._context.ranks)
        tested = self._program.evaluate(deal)
        if self._context.rank == 0:
            (Path(self._job.out) / TEST).write_text(json.dumps(tested.scores))
