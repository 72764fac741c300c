"""Time limit: a planner in a process of its own, which can be ended when its time is up."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.interruption import masked
from chronoscale.parent import die_with_parent
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

LOW = 10  # niceness: planning gives way to training


def plan_within(seconds: float, strategy: Strategy, workload: Workload, ranks: int, costs: CostModel) -> Schedule | None:
    """Let a strategy plan in a process of its own, beside a training run that waits no longer than `seconds`; return its schedule, or None
    when it has none by then. Starting the process does not count.

    The planner's ChronoscaleWarnings are issued here, once. Raises UserError as `plan` does, MachineError when the process dies.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "schedule.parquet")
        process = context.Process(target=_plan, args=(os.getpid(), theirs, str(path), strategy, workload, ranks, costs), daemon=True)
        try:
            with masked():
                process.start()
            theirs.close()
            ours.recv()
            if not ours.poll(seconds):
                return None
            error, messages = ours.recv()
            for text in messages:
                warnings.warn(text, ChronoscaleWarning, stacklevel=2)
            if error:
                raise UserError(error)
            return Schedule.load(path)
        except EOFError:
            raise MachineError(f"the planner of '{strategy.name}' died") from None
        finally:
            if process.pid is not None:
                process.kill()
                process.join()
            ours.close()


def _plan(parent: int, connection: Connection, path: str, strategy: Strategy, workload: Workload, ranks: int, costs: CostModel) -> None:
    """Plan in a process of its own, write the schedule to `path`, and send what went wrong and the warnings."""
    die_with_parent(parent)
    os.nice(LOW)
    connection.send("started")
    message = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        try:
            strategy.plan(workload, ranks, costs).save(Path(path))
        except UserError as error:
            message = str(error)
    connection.send((message, [str(warning.message) for warning in caught if issubclass(warning.category, ChronoscaleWarning)]))
