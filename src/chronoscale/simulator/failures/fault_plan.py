"""Fault plan: which failures a training meets, and what is done about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chronoscale.errors import UserError
from chronoscale.simulator.failures.pace import Pace
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

Policy = Literal["restart", "shrink", "stop"]


class TaskFailure(NamedTuple):
    """Simulated failure of the rank that runs `task` (a row of the schedule), while it does, in the epoch of that number from 0."""

    epoch: int
    task: int


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Failures of devices that a simulated training meets, its checkpoints, and what is done after a failure.

    policy: 'restart', 'shrink' (go on with a rank less) or 'stop'. every: iterations between checkpoints; checkpoint_s: what writing one
    takes; detect_s, restart_s: until a failure is noticed, and then until training goes on. mtbf_s: mean time between failures of one
    device, None where none fails at random. times_s, tasks: failures at stated times and tasks.
    """

    policy: Policy
    every: int
    checkpoint_s: float = 0.0
    detect_s: float = 0.0
    restart_s: float = 0.0
    mtbf_s: float | None = None
    times_s: tuple[float, ...] = ()
    tasks: tuple[TaskFailure, ...] = ()

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UserError(f"failures: every: expected at least 1 iteration, got {self.every}")
        if self.mtbf_s is not None and not (math.isfinite(self.mtbf_s) and self.mtbf_s > 0):
            raise UserError(f"failures: mtbf_s: expected a finite number above 0, got {self.mtbf_s}")
        stated = [(name, getattr(self, name)) for name in ("checkpoint_s", "detect_s", "restart_s")]
        for name, value in [*stated, *(("times_s", time) for time in self.times_s)]:
            if not (math.isfinite(value) and value >= 0):
                raise UserError(f"failures: {name}: expected a finite number of at least 0, got {value}")


class FailurePositions(NamedTuple):
    """Positions in a simulated training at which tasks fail: iterations done, and ns into the next; ascending."""

    positions: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, plan: FaultPlan, schedule: Schedule, trace: Trace) -> FailurePositions:
        """Find where in a simulated training the tasks that a fault plan lets fail are.

        trace: a simulated epoch of `schedule`. Raises UserError for a task that the schedule does not have.
        """
        pace, begin = Pace.of(schedule, trace), int(trace.start_ns.min()) if len(trace) else 0
        for epoch, task in plan.tasks:
            if epoch < 0 or not 0 <= task < len(trace):
                has = f"'{schedule.name}' on {schedule.ranks} ranks has {len(trace)}"
                raise UserError(f"failures: tasks: no task {task} in epoch {epoch}: {has}")
        middles = (trace.start_ns + trace.end_ns) // 2 - begin
        return cls(tuple(sorted(pace.place(epoch, int(middles[task])) for epoch, task in plan.tasks)))
