"""Two processes of a launcher as two threads of a test, and a job that names every kind of file."""

import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks import attached, attached_job
from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.strategies.workload import Hyper, ModelChoice


def meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: int = 1) -> tuple[Attachment, Attachment]:
    """Return two processes that have met, on one machine or on two, which share a temporary folder."""
    for each in (attached, attached_job):
        monkeypatch.setattr(each, "LOOK_S", 0.01)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    port, local_ranks = free_port(), 2 // machines
    starters = [Starter("torchrun", rank, 2, rank % local_ranks, local_ranks, "127.0.0.1", port, rank == 0, "run") for rank in (0, 1)]
    with ThreadPoolExecutor() as threads:
        first, second = threads.map(partial(Attachment, facts={}), starters)
    return first, second


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def job_of(folder: Path) -> Job:
    """Return a job of two ranks with a schedule, a dataset, a partition, a preparation, a topology and a module of the user's."""
    (folder / "data").mkdir()
    (folder / "data" / "src.npy").write_bytes(b"src")
    (folder / "psg.parquet").write_bytes(b"schedule")
    for name in ("parts.npy", "prepare.parquet", "topology.xml", "mine.py"):
        (folder / name).write_text(name)
    item = Item(
        "psg", str(folder / "psg.parquet"), str(folder / "data"), Hyper(), str(folder / "parts.npy"), str(folder / "prepare.parquet")
    )
    settings = Settings(topology=str(folder / "topology.xml"))
    return Job("ranks-2", (item,), str(folder / "out"), ModelChoice("wd-gcn"), 1, settings=settings, modules=(str(folder / "mine.py"),))
