"""Launch: start the ranks of a job from a warm server and watch them until they have ended. On one machine they use loopback alone."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.attached import attachment
from chronoscale.real_exec.ranks.attached_rank import run_attached
from chronoscale.real_exec.ranks.failure import name_trace
from chronoscale.real_exec.ranks.rank_group import QUIET, RankGroup, server_of
from chronoscale.real_exec.ranks.request import Request
from chronoscale.real_exec.ranks.root_cause import find_root_cause
from chronoscale.real_exec.ranks.supervision import Patience, Watch

ENTRY = "chronoscale.real_exec.worker"
LOOK_S = 0.2  # between looks at where ranks are
GRACE_S = 1.0  # for others to say why a rank lost them
# Ranks of one machine: nobody else has to reach them, wherever another launcher would have them meet.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}
ELSEWHERE = ("NCCL_COMM_ID",)
OnProgress = Callable[[str], None]


def launch(
    job: Job,
    ranks: int,
    folder: Path,
    on_progress: OnProgress = lambda _: None,
    entry: str = ENTRY,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Start a job's ranks as fresh processes on this machine, or on all to which it is attached, and wait until they have executed it.

    Threads, pools and memory start alike for every number of ranks. folder: where the job file is written, `<name>.job.json`. on_progress:
    called now and then with a line on how far the first rank has come. entry: the module whose `main(path)` each rank runs. is_stopped:
    asked now and then; once it says so, the ranks are ended and this returns. Raises UserError or MachineError with the cause when a rank
    fails, is lost, or makes no progress. The ranks end with this process, however it ends.
    """
    path = folder / f"{job.name}.job.json"
    job.save(path)
    if attached := attachment():
        return attached.launch(entry, job, ranks, path, partial(run_attached, attached.starter, on_progress), is_stopped)
    wait(start(entry, path, ranks, job.settings.threads), job.name, Patience(job.settings.hang_after), on_progress, is_stopped)


def start(entry: str, path: Path, ranks: int, threads: int) -> RankGroup:
    """Start a job's ranks on this machine, processes that run `main(path)` of the module `entry`, without waiting.

    Call `wait` for them, else they end with this process.

    path: the job file. threads: of each rank's computation. Ranks learn who they are from `membership.Membership`, and meet by a file in a
    folder that only this user can open.
    """
    modules = [os.path.abspath(place) for place in sys.path]
    request = Request(entry, str(path), ranks, tempfile.gettempdir(), os.getcwd(), _environment(threads), modules)
    return server_of(threads).start(request)


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a rank: the user's, apart from where ranks meet."""
    variables = {key: value for key, value in os.environ.items() if key not in ELSEWHERE}
    return {**QUIET, **variables, **LOOPBACK, "OMP_NUM_THREADS": str(threads)}


def wait(
    ranks: RankGroup,
    job: str,
    patience: Patience | None = None,
    on_progress: OnProgress = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Wait in the launcher until all ranks of a job have ended; whatever ends this wait ends them.

    job: the job's name, for messages. on_progress, is_stopped: as of `launch`. Raises UserError or MachineError with the cause when a rank
    fails or is lost; MachineError when none has moved for longer than `patience`.
    """
    watch, line = Watch(ranks.pages, ranks.pids, patience or Patience()), ""
    try:
        while not ranks.over:
            ranks.wait_for_end(LOOK_S)
            if any(ranks.ended.values()):
                raise _cause(ranks, job)
            text = watch.look(ranks.ended)
            if watch.hung:
                why = "the server of its ranks is stopped" if ranks.server.stopped else watch.hung
                raise MachineError(f"'{job}' was ended: {why}")
            if is_stopped():
                return
            if text and text != line:
                on_progress(line := text)
    finally:
        ranks.close()


def _cause(ranks: RankGroup, name: str) -> UserError | MachineError:
    """Return the error to raise for ranks that failed, once the root cause is known; its traceback, if any, goes to a file that stays."""
    until = time.monotonic() + GRACE_S
    while (
        not (root := find_root_cause(name, ranks.ended, ranks.pages, ranks.folder)).certain and not ranks.over and time.monotonic() < until
    ):
        ranks.wait_for_end(0.05)
    return name_trace(root.error, root.trace)
