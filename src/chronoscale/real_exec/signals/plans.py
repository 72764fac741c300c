"""SignalPlans: one schedule for every epoch; in the end the test windows are predicted, once."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.program import SignalProgram
from chronoscale.real_exec.signals.recipe import learner_of, program_of
from chronoscale.real_exec.training.best_plans import BestPlans
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import HORIZON, SCALE, TEST, TrainedScale
from chronoscale.records import write_atomically
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import SignalFeeding

STAGE = "training"


class SignalPlans(BestPlans):
    """Plans of a training on a signal: one schedule for all epochs. At the end the job's folder has TEST, the scores of the test windows,
    and HORIZON, those of every step ahead, of validation and test.

    An epoch's order of windows depends only on the seed and its number: a run that was cut off ends at the weights of one that was not.
    """

    def __init__(self, job: Job, schedule: Schedule, context: Context) -> None:
        """Make the untrained model. Raises UserError when the schedule is for another number of ranks."""
        super().__init__(job, context, job.items[0].hyper.validate)
        self._job = job
        self._schedule = context.require_ranks(schedule)
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
        """Predict validation and test windows on all ranks with the best epoch's model, and write their scores, by step as well."""
        self.take_best()
        feeding, windows = SignalFeeding.of(self._schedule), self._program.feed.windows
        errors = {}
        for period, part in (("validation", windows.validation), ("test", windows.test)):
            errors[period] = self._program.evaluate(feeding.evaluation(part, self._job.items[0].hyper, self._context.ranks))
        if self._context.rank == 0:
            scale = self._program.feed.scale
            trained = TrainedScale(windows.steps, scale.mean.tolist(), scale.deviation.tolist())
            write_atomically(self._folder / SCALE, json.dumps(asdict(trained)).encode())
            by_step = {period: error.steps for period, error in errors.items() if error.targets}
            write_atomically(self._folder / HORIZON, json.dumps(by_step).encode())
            write_atomically(self._folder / TEST, json.dumps(errors["test"].scores).encode())
