"""Endurance: a simulated training whose devices fail, as an experiment's `failures` say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.simulator.failures.fault_plan import FailurePositions
from chronoscale.simulator.failures.pace import Pace
from chronoscale.simulator.failures.summary import FailureSummary
from chronoscale.simulator.failures.training import simulate_training
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


def endured(
    experiment: Experiment, schedule: Schedule, trace: Trace, epoch: Callable[[int], tuple[Schedule, Trace]]
) -> FailureSummary | None:
    """A training of `experiment.epochs` epochs such as `trace`; None where nothing fails. epoch: one on fewer ranks, asked for once each; a
    UserError of it means that there is none. Raises UserError for a failure at a task that `schedule` does not have."""
    asked = experiment.failures
    if asked is None:
        return None
    for at in asked.tasks:
        if at.epoch >= experiment.epochs:
            raise UserError(f"failures.tasks: epoch {at.epoch}: the training has {experiment.epochs} (epochs), numbered from 0")
    plan = asked.plan(max(schedule.iterations, 1))
    points = FailurePositions.of(plan, schedule, trace)

    @cache
    def on(ranks: int) -> Pace | None:
        try:
            return Pace.of(*epoch(ranks))
        except UserError:
            return None

    draws = range(1 if asked.mtbf_s is None else asked.draws)
    pace = Pace.of(schedule, trace)
    outcomes = [simulate_training(plan, pace, schedule.ranks, experiment.epochs, points, on, experiment.seed, draw) for draw in draws]
    return FailureSummary.of(outcomes, experiment.epochs)
