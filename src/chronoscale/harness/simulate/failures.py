"""Failures: a simulated training whose devices fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from chronoscale.errors import UserError
from chronoscale.harness.keys.failures import FailureKeys
from chronoscale.simulator.failures.fault_plan import FailurePositions
from chronoscale.simulator.failures.pace import Pace
from chronoscale.simulator.failures.summary import FailureSummary
from chronoscale.simulator.failures.training import simulate_training
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


def simulate_failures(
    failures: FailureKeys | None,
    epochs: int,
    seed: int,
    schedule: Schedule,
    trace: Trace,
    epoch_on: Callable[[int], tuple[Schedule, Trace]],
) -> FailureSummary | None:
    """Simulate trainings whose GPUs fail, for one strategy of `chronoscale simulate`; None where the experiment has no `failures`.

    schedule, trace: of an epoch, of which a training has `epochs`. epoch_on: called for an epoch on fewer GPUs, once for each number; its
    UserError means that there is none. Raises UserError for a failure at a task or epoch that there is not.
    """
    if failures is None:
        return None
    for task in failures.tasks:
        if task.epoch >= epochs:
            raise UserError(f"failures.tasks: epoch {task.epoch}: the training has {epochs} (epochs), numbered from 0")
    plan = failures.plan(max(schedule.iterations, 1))
    points = FailurePositions.of(plan, schedule, trace)

    @cache
    def pace_on(ranks: int) -> Pace | None:
        try:
            return Pace.of(*epoch_on(ranks))
        except UserError:
            return None

    draws = range(1 if failures.mtbf_s is None else failures.draws)
    pace = Pace.of(schedule, trace)
    trainings = [simulate_training(plan, pace, schedule.ranks, epochs, points, pace_on, seed, draw) for draw in draws]
    return FailureSummary.of(trainings, epochs)
