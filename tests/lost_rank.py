"""Ranks that talk without end, for tests of how they are lost: `main` of a job's file, which says in which `operation`, and how which rank
`ends`."""

import json
import os
import resource
import signal
import subprocess
import time
from itertools import count
from pathlib import Path

import torch
import torch.distributed as dist

from chronoscale.real_exec.communication.collective import TorchCollective
from chronoscale.real_exec.communication.exchange import TorchExchange
from chronoscale.real_exec.execution.row_threads import RowThreads
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.rank import serve
from chronoscale.strategies.schedule import Lane, Op

ROWS = 1000
BEGIN = 5  # iterations before one is lost


def lose(how: str) -> None:
    """End this rank, or have it hang, or fail."""
    if how == "raise":
        raise ValueError("odd")
    if how == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
        torch.ones(1 << 28)
    elif how not in ("leave out", "never", "keep a child"):
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(1000)  # the signal may take its time


def talk(operation: str, loses: int, how: str) -> None:
    """Rows of work and of communication until a rank is lost."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    collective, exchange = TorchCollective(), TorchExchange()
    values = torch.ones(ranks * ROWS, 8)
    into = torch.empty_like(values)
    here = positions.own_page()

    if how == "raise beside":
        rows = [Task(7, Op.COMPUTE, Lane.COMPUTE, 0, 0, 0, 0, 0, ()), Task(8, Op.RECV, Lane.COMM, 0, 0, 0, 0, 0, ())]

        def beside(task: Task) -> None:
            if task.op is Op.RECV:
                exchange.receive(into, 1 - rank)  # which nobody sends
            elif rank == loses:
                while len(here.read().rows) < 2:
                    time.sleep(0.01)
                raise ValueError("odd")

        step = here.record_rows(beside)
        RowThreads(rows, [0, 1], [[], []], 2).run([lambda _, task: step(task)] * 2)

    if how.endswith("a child"):
        subprocess.Popen(["sleep", "1000"])
    if how == "leave a child":
        collective.all_reduce(values)  # or one may be gone before the other has joined it
        return

    def run(task: Task) -> None:
        if task.op is Op.COMPUTE:
            values.fill_(1.0)
            if task.iteration == BEGIN and rank == loses:
                lose(how)
        elif rank == loses and how == "leave out" and task.iteration == BEGIN:
            inner = here.record_rows(lambda _: exchange.receive(into, 1 - rank))  # which nobody sends
            inner(Task(task.task + 1, Op.RECV, Lane.COMM, task.iteration, 0, 0, 0, 0, ()))
        elif operation == "all_to_all":
            exchange.all_to_all(into, values, [ROWS] * ranks, [ROWS] * ranks)
        else:
            collective.all_reduce(values)

    here.enter_pass("talk")
    here.enter_pass("talk")
    step = here.record_rows(run)
    for number in count():
        op = Op.ALLREDUCE if number % 2 else Op.COMPUTE
        step(Task(number, op, Lane.COMM if number % 2 else Lane.COMPUTE, number // 2, 0, 0, 0, 0, ()))


def main(path: str) -> int:
    """Entry point of a rank."""
    request = json.loads(Path(path).read_text())
    return serve("cpu", lambda: talk(request["operation"], request["loses"], request["how"]))
