"""One rank in this process, for tests of what comes before and after it: a process of its own takes seconds to import torch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.launch import launch
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
    """Run jobs and training of one rank that commands start in this process, from now on."""
    for module in ("execution", "calibration"):
        monkeypatch.setattr(f"chronoscale.harness.execute.{module}.launch", here)
    monkeypatch.setattr("chronoscale.real_exec.ranks.launch.start", lambda entry, path, ranks, threads: path)
    monkeypatch.setattr("chronoscale.real_exec.ranks.launch.wait", lambda path, name, *_: epoch_loop.train_here(Job.load(path)))
