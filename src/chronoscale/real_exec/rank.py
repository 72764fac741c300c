"""Rank: what a process of a job is: its process group, its device, its exit code, and that it ends with its launcher."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

from chronoscale import modules
from chronoscale.errors import MachineError, NotFiniteError, UserError, in_words
from chronoscale.real_exec.job import LAUNCHER
from chronoscale.real_exec.pinning import pin

NOT_FINITE = 3  # exit code


def serve(device: str, work: Callable[[], None], files: Iterable[str] = ()) -> int:
    """Join the process group where there is one, run the user's `files`, work, and turn errors into a line and an exit code: 2 for a
    user's mistake, NOT_FINITE for a number of training that is not, 1 for a failure of the machine."""
    try:
        if LAUNCHER in os.environ:
            follow(int(os.environ[LAUNCHER]))
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world > 1:
            cuda = device != "cpu" and torch.cuda.is_available() and torch.cuda.device_count() >= world
            if not cuda:
                pin(int(os.environ["LOCAL_RANK"]), world, int(os.environ.get("OMP_NUM_THREADS", "1")))
            dist.init_process_group("nccl" if cuda else "gloo")
        for file in files:
            modules.load(file)
        work()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_FINITE if isinstance(error, NotFiniteError) else 2
    except OSError as error:
        print(f"error: {in_words(error)}", file=sys.stderr)
        return 1
    except (MachineError, MemoryError, torch.OutOfMemoryError) as error:
        print(f"error: {str(error).splitlines()[0] if str(error) else type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def follow(launcher: int) -> None:
    """End this rank within a second of its launcher, which may have been killed: nobody else would stop it from writing."""

    def watch() -> None:
        while Path(f"/proc/{launcher}").exists():
            time.sleep(1)
        os._exit(1)

    if not Path("/proc/self").exists():
        raise MachineError("chronoscale runs on Linux: there is no /proc here")
    threading.Thread(target=watch, daemon=True).start()


def leave(code: int) -> NoReturn:
    """End this process without finalising the interpreter: gloo's threads outlive their group and now and then abort it there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def pick_device(name: str, rank: int) -> torch.device:
    """'auto': a GPU where there is one, one a rank of this machine. Raises UserError for 'cuda' without a GPU, or with too few."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(f"device '{name}' asked for, no CUDA device is available")
    if rank >= torch.cuda.device_count():
        raise UserError(f"rank {rank} has no GPU: there are {torch.cuda.device_count()}; run fewer ranks, or set device: cpu")
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    return device
