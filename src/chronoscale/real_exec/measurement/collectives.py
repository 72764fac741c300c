"""Collectives of many sizes by themselves, which every profile of several ranks times."""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule

MESSAGES = tuple(1 << power for power in range(10, 23, 2))  # bytes: 1 KiB .. 4 MiB


def all_reduces(ranks: int) -> Schedule:
    """Return a schedule of nothing but all-reduces, of every size in MESSAGES, which ranks execute to measure their network for a fit."""
    builder = Builder(f"all-reduce-{ranks}", ranks, kind="collectives")
    for i, size in enumerate(MESSAGES):
        builder.add(Op.ALLREDUCE, Lane.COMM, {"rank": np.arange(ranks), "order": i, "collective": i, "bytes": size, "iteration": 0})
    return builder.finish()


class CollectiveProgram(Program):
    """Program of a rank for schedules of nothing but all-reduces, or messages (`pairs.messages`), which measure the network."""

    def __init__(self, schedule: Schedule, context: Context) -> None:
        self.tasks, self.collective, self._exchange = tasks_of(schedule, context.rank), context.collective, context.exchange
        self._values = {task.bytes: torch.zeros(task.bytes // 4, device=context.device) for task in self.tasks}

    def run(self, task: Task) -> None:
        """All-reduce `task.bytes` bytes of float32 over the ranks, or send them to the rank `task.step`, or receive them from it."""
        values = self._values[task.bytes]
        if task.op is Op.SEND:
            self._exchange.send(values, task.step)
        elif task.op is Op.RECV:
            self._exchange.receive(values, task.step)
        else:
            self.collective.all_reduce(values)

    def finish(self) -> EpochResult:
        return EpochResult()
