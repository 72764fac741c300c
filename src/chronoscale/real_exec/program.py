"""Program: binds (dataset, model, operation) to code. Collectives alone are bound here, families in their folders."""

from __future__ import annotations

from typing import Protocol

import torch

from chronoscale.real_exec.collective import Collective
from chronoscale.real_exec.task import Task, tasks_of
from chronoscale.strategies.schedule import Schedule


class Program(Protocol):
    """One rank's code for the rows of a schedule."""

    tasks: list[Task]
    collective: Collective

    def run(self, task: Task) -> None:
        """Execute one row."""
        ...

    def losses(self) -> dict[int, float]:
        """This rank's share of the loss of each iteration since the last call."""
        ...


class CollectiveProgram:
    """Executes schedules of collectives alone, to measure them."""

    def __init__(self, schedule: Schedule, rank: int, device: torch.device, collective: Collective) -> None:
        self.tasks, self.collective = tasks_of(schedule, rank), collective
        self._values = {task.bytes: torch.zeros(task.bytes // 4, device=device) for task in self.tasks}

    def run(self, task: Task) -> None:
        """All-reduce of `task.bytes` bytes of fp32."""
        self.collective.all_reduce(self._values[task.bytes])

    def losses(self) -> dict[int, float]:
        """Nothing is trained."""
        return {}
