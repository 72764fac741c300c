"""Launch: a job on one rank in a process of its own, on several under torchrun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job

ENTRY = "chronoscale.real_exec.worker"


def launch(job: Job, ranks: int, folder: Path) -> None:
    """Run `job` in fresh processes, so that threads, pools and memory start alike for every rank count.

    Raises UserError or MachineError with the worker's own line when it fails. Its processes end with this one.
    """
    path = folder / f"{job.name}.job.json"
    job.save(path)
    command = [sys.executable, "-m", ENTRY, str(path)]
    if ranks > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", ENTRY, str(path)]
    environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ, "OMP_NUM_THREADS": str(job.threads)}
    worker = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        _, errors = worker.communicate()
    except BaseException:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        raise
    if worker.returncode:
        said = [line[len("error: ") :] for line in errors.splitlines() if line.startswith("error: ")]
        if said:
            raise (UserError if "exitcode  : 2" in errors or worker.returncode == 2 else MachineError)(said[0])
        last = errors.strip().splitlines()[-1] if errors.strip() else "no message"
        raise MachineError(f"a worker of '{job.name}' ended with code {worker.returncode}: {last}")
