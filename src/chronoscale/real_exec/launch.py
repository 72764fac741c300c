"""Launch: a job on one rank in a process of its own, on several under torchrun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from chronoscale.errors import MachineError, NotFiniteError, UserError
from chronoscale.real_exec.job import LAUNCHER, Job
from chronoscale.real_exec.rank import NOT_FINITE
from chronoscale.real_exec.said import heard

ENTRY = "chronoscale.real_exec.worker"
LOOK_S = 0.5  # between looks at how far a job has come
# glibc keeps freed memory: mapping tensors anew at every step costs page faults, by luck of their sizes, and blurs every figure.
# Ranks of one machine talk over loopback. What the user has set himself stands.
QUIET = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32), "GLOO_SOCKET_IFNAME": "lo"}


def launch(job: Job, ranks: int, folder: Path, told: Callable[[str], None] = lambda _: None) -> None:
    """Run `job` in fresh processes, so that threads, pools and memory start alike for every rank count. `told`: how far it has come.

    Raises UserError or MachineError with the worker's own line when it fails. Its processes end with this one, however this one ends.
    """
    path = folder / f"{job.name}.job.json"
    job.save(path)
    worker = start(ENTRY, path, ranks, job.settings.threads)
    over = threading.Event()
    watch = threading.Thread(target=_follow, args=(job, over, told), daemon=True)
    watch.start()
    try:
        wait(worker, job.name)
    finally:
        over.set()
        watch.join()


def _follow(job: Job, over: threading.Event, told: Callable[[str], None]) -> None:
    """Hand on what the first rank says, as long as the job runs."""
    while not over.wait(LOOK_S):
        if said := heard(job):
            told(said)


def start(entry: str, job: Path, ranks: int, threads: int) -> subprocess.Popen[str]:
    """Processes that run the module `entry` on a job file; `wait` for them, or they end with this process."""
    command = [sys.executable, "-m", entry, str(job)]
    if ranks > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", entry, str(job)]
    environment = {**QUIET, **os.environ, "OMP_NUM_THREADS": str(threads), LAUNCHER: str(os.getpid())}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)


def wait(worker: subprocess.Popen[str], name: str) -> None:
    """Until it ends. Raises UserError or MachineError with its own line when it fails; an interruption ends it."""
    try:
        _, errors = worker.communicate()
    except BaseException:
        stop(worker)
        raise
    if worker.returncode:
        raise _failure(name, worker.returncode, errors)


def stop(worker: subprocess.Popen[str]) -> None:
    """End it and all it started, at once."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def _failure(name: str, code: int, errors: str) -> UserError | MachineError:
    """A rank that was killed, whatever others said of it; else the line that a worker said, else the first exception it died of."""
    lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in errors.splitlines()]
    said = [line[len("error: ") :] for line in lines if line.startswith("error: ")]
    rank, number = _signalled(code, errors)
    if said and number != signal.SIGKILL:
        kinds = {NOT_FINITE: NotFiniteError, 2: UserError}
        ended = (kind for number, kind in kinds.items() if code == number or any(f"exitcode  : {number}" in line for line in lines))
        return next(ended, MachineError)(said[0])
    if number:
        return MachineError(f"rank {rank} of '{name}' was lost ({signal.Signals(number).name})")
    died = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line) and "ChildFailedError" not in line]
    last = died[0] if died else lines[-1] if lines else "no message"
    return MachineError(f"a worker of '{name}' ended with code {code}: {last}")


def _signalled(code: int, errors: str) -> tuple[int, int]:
    """The rank that a signal ended, and the signal; (0, 0) where none did. By torchrun's account, first of what it takes for the cause:
    ranks that lose another may have ended, too, before it looks."""
    for account in (errors.partition("Root Cause")[2], errors):
        if ended := re.search(r"rank\s*: (\d+)[^\n]*\n\s*exitcode\s*: -(\d+)", account):
            return int(ended[1]), int(ended[2])
    return 0, max(-code, 0)
