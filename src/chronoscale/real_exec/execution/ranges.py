"""Ranges: rows under their names in the traces of torch.profiler, so that what it saw can be joined with a schedule."""

from __future__ import annotations

from collections.abc import Callable

import torch

from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.row_name import row_name

Run = Callable[[Task], None]


def ranged(run: Run) -> Run:
    """`run` with each row in a range of its name while a profiler records; itself otherwise, as a range takes microseconds.

    The profiler records the thread that started it, and what that launches on a device; rows of other threads (the host's, where it has one
    of its own) are not seen.
    """
    if not torch.autograd.profiler._is_profiler_enabled:  # as torch.optim asks; there is no public way
        return run

    def inside(task: Task) -> None:
        with torch.profiler.record_function(row_name(task.task, task.op)):
            run(task)

    return inside
