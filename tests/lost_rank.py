"""Ranks that talk without end, for tests of launch: `-m lost_rank JOB`; its file says in which `operation`, and which rank `ends`."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Timer

import torch
import torch.distributed as dist

from chronoscale.real_exec.collective import TorchCollective
from chronoscale.real_exec.exchange import TorchExchange
from chronoscale.real_exec.rank import leave, serve

ROWS = 1000


def talk(operation: str, ends: int) -> None:
    """Until another rank ends, or this one."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    collective, exchange = TorchCollective(), TorchExchange()
    values = torch.ones(ranks * ROWS, 8)
    into = torch.empty_like(values)
    collective.barrier()
    if rank == ends:
        Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    begin = time.monotonic()
    while time.monotonic() - begin < 100:
        if operation == "all_to_all":
            exchange.all_to_all(into, values, [ROWS] * ranks, [ROWS] * ranks)
        elif operation == "all_reduce":
            collective.all_reduce(values)
        elif rank == ends:  # the others wait for it
            time.sleep(100)
        else:
            collective.barrier()


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    leave(serve("cpu", lambda: talk(asked["operation"], asked["ends"])))
