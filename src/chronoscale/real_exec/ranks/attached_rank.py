"""Attached rank: this process's one rank of a job on several machines, from start to end."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.attached_folders import is_made_here
from chronoscale.real_exec.ranks.failure import name_trace
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.rank_group import QUIET, RankGroup, server_of
from chronoscale.real_exec.ranks.request import Request
from chronoscale.real_exec.ranks.root_cause import find_root_cause
from chronoscale.real_exec.ranks.route import interface_to
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.real_exec.ranks.supervision import Patience, Watch

LOOK_S = 0.2  # between looks at the rank, and at whether it is still wanted


def run_attached(
    starter: Starter,
    on_progress: Callable[[str], None],
    entry: str,
    path: Path,
    job: Job,
    store: str,
    ranks: int,
    is_stopped: Callable[[str], bool],
) -> AttachedEnd:
    """Execute this process's rank of a job on several machines, and return how it ended.

    entry: module whose `main(path)` the rank runs. path: the job file. store: where ranks meet (`Membership.store`). ranks: of the job.
    is_stopped: asked now and then whether the job is over elsewhere; then the rank is ended, and that is no failure of its own. It is told
    where this rank waits for others, if it has for too long (`Watch.waits`).
    """
    placement = starter.rank, ranks, starter.local_rank, starter.local_of(ranks)
    try:
        modules = [os.path.abspath(place) for place in sys.path]
        environment = _environment(starter, job.settings.threads)
        received = str(path.parent) if is_made_here(path.parent) else ""  # not the folder of the user's run
        request = Request(entry, str(path), 1, tempfile.gettempdir(), os.getcwd(), environment, modules, "", placement, store, received)
        return _watch(server_of(job.settings.threads).start(request), starter.rank, job, on_progress, is_stopped)
    except (MachineError, UserError) as error:
        return AttachedEnd.of(error)


def _environment(starter: Starter, threads: int) -> dict[str, str]:
    """Return the environment of a rank: the user's, and the interface that leads to where ranks meet, unless the user names another."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME") or interface_to(starter.host, starter.port)
    chosen = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": os.environ.get("NCCL_SOCKET_IFNAME") or f"={interface}"}
    return {**QUIET, **os.environ, **chosen, "OMP_NUM_THREADS": str(threads)}


def _watch(group: RankGroup, rank: int, job: Job, on_progress: Callable[[str], None], is_stopped: Callable[[str], bool]) -> AttachedEnd:
    watch, line = Watch(group.pages, group.pids, Patience(job.settings.hang_after), first=rank), ""
    try:
        while not group.over:
            group.wait_for_end(LOOK_S)
            if any(group.ended.values()):
                return _cause(group, rank, job.name)
            text = watch.look(group.ended)
            if watch.hung:
                return AttachedEnd.of(MachineError(f"'{job.name}' was ended: {watch.hung}"), 0)
            if is_stopped(watch.waits):
                return AttachedEnd()
            if text and text != line:
                on_progress(line := text)
        return AttachedEnd()
    finally:
        group.close()


def _cause(group: RankGroup, rank: int, name: str) -> AttachedEnd:
    root = find_root_cause(name, group.ended, group.pages, group.folder, rank)
    return AttachedEnd.of(name_trace(root.error, root.trace), root.order, root.certain)
