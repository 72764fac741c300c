"""Attendance: the part of each process in a command that torchrun, srun or mpirun has started on several machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

import psutil
from torch.distributed import DistError

from chronoscale import interruption
from chronoscale.errors import MachineError, UserError
from chronoscale.harness.execute.machine import gpus, this_device
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.real_exec.ranks.attached import attach
from chronoscale.real_exec.ranks.attached_folders import remove_at_sigterm, remove_folders
from chronoscale.real_exec.ranks.attached_rank import run_attached
from chronoscale.real_exec.ranks.machines import MEMORY, check_versions
from chronoscale.real_exec.ranks.starter import Starter


def attend(starter: Starter) -> int:
    """Execute this process's ranks of the first process's command until that is over; return the exit code.

    It is 0, however the command ended: a launcher that sees a process fail ends the first one, too, which has a line to print. But where
    the launcher starts each machine's processes again that fail there, the first machine comes again, and those of the others have to
    fail as it did, unless that was Ctrl-C.

    SIGTERM ends it, with exit code 143, and leaves none of its folders. Raises MachineError where the first process, or the store in which
    they meet, is lost.
    """
    remove_at_sigterm()
    try:
        code = attach(starter, _facts()).attend(partial(run_attached, starter, lambda _: None), _leave)
    except DistError as error:
        raise MachineError(f"rank 0 at {starter.host}:{starter.port} is gone: {str(error).splitlines()[0]}") from None
    return code if starter.restarts and not starter.on_first and code != interruption.CODE else 0


def _facts() -> dict[str, str]:
    return fingerprint(this_device("auto")) | {"gpus": str(gpus()), MEMORY: str(psutil.virtual_memory().available)}


def _leave(line: str) -> None:
    """End this process, whose other threads wait for what will not come, and with it its rank."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    remove_folders()
    os._exit(1)


def lead(starter: Starter, command: Callable[[], object]) -> None:
    """Run a command in the first process, and tell the others its exit code once it is over."""
    attached, code = attach(starter, _facts()), 1
    try:
        check_versions(attached.machines)
        command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except UserError:
        code = 2
        raise
    finally:
        attached.close(code)
