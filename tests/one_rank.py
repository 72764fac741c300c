"""One rank in this process, for tests of what comes before and after it: a process of its own takes seconds to import torch."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from chronoscale.harness.workflows.snapshots.control_plane import PLANE
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks import launch as launching
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.ranks.rank_group import RankGroup
from chronoscale.real_exec.training import epoch_loop
from chronoscale.real_exec.worker import run_job, save_passes


def here(job: Job, ranks: int, folder: Path, on_progress: Callable[[str], None] = lambda _: None) -> None:
    """`launch` of one rank; more get processes."""
    if ranks > 1:
        return launch(job, ranks, folder, on_progress)
    threads = torch.get_num_threads()
    save_passes(run_job(job), Path(job.out))
    torch.set_num_threads(threads)


def inline_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run jobs and training of one rank that commands start in this process, from now on; more get processes."""
    for module in ("execution", "calibration"):
        monkeypatch.setattr(f"chronoscale.harness.execute.{module}.launch", here)
    start, wait = launching.start, launching.wait

    def start_here(entry: str, path: Path, ranks: int, threads: int) -> Path | RankGroup:
        return path if ranks == 1 else start(entry, path, ranks, threads)

    def wait_here(ranks: Path | RankGroup, name: str, *how: Any) -> None:
        if isinstance(ranks, RankGroup):
            return wait(ranks, name, *how)
        epoch_loop.train_here(Job.load(ranks))

    monkeypatch.setattr(launching, "start", start_here)
    monkeypatch.setattr(launching, "wait", wait_here)


def wait_for_planes() -> None:
    """Wait for the control planes of training that was lost in this process: a process of its own ends with them."""
    for thread in threading.enumerate():
        if thread.name == PLANE:
            thread.join()
