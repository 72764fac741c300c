"""Windows come from a mapped file about as fast as from memory.

One process, each contestant with the lanes of a real run: gen-dist-index prefetches on the host lane's thread and cuts windows from its
block, index (the rival) gathers in line from the array in memory. `load` drops a batch when it would be computed on; `gathering, s`
counts its GATHER rows alone: cutting a block that has arrived. `train` is the program that trains. Warm: the file lies in the page cache;
cold: the system was asked to forget it before each pass, and `in memory, %` is what it had not forgotten. 2 GB, PeMS's sensors, batches
of 16.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.process import fresh, reset_peak
from setups.signals import SENSORS, item, mapped, steps_of, stored

from chronoscale.batching.signals.windows import Windows
from chronoscale.real_exec.communication.collective import SingleRankCollective
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.signals.feeds import FEEDS, Feed
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Hyper, ModelChoice

CONTESTANTS = {"gen-dist-index": "mapped", "index": "in memory"}


class Loader(Program):
    """Executes the rows that bring batches, and drops each batch when it is to be computed on."""

    def __init__(self, schedule: Schedule, feed: Feed, starts: list[np.ndarray]) -> None:
        self.tasks, self.collective, self.feed, self.starts = tasks_of(schedule, 0), SingleRankCollective(), feed, starts
        self.batch: dict[int, torch.Tensor] = {}

    def run(self, task: Task) -> None:
        if task.lane is Lane.HOST:
            self.batch[task.unit] = self.feed.read(self.starts[task.unit])
        elif task.op is Op.GATHER:
            self.batch[task.unit] = self.feed.cut(self.batch[task.unit], self.starts[task.unit])
        elif task.op is Op.FORWARD:
            self.batch.pop(task.unit)

    def finish(self) -> EpochResult:
        return EpochResult()


def resident(file: Path) -> float:
    """Return the share of a file's pages that the system holds."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        flags = np.zeros(-(-len(pages) // mmap.PAGESIZE), np.uint8)
        view = np.frombuffer(pages, np.uint8)
        library = ctypes.CDLL(None, use_errno=True)
        failed = library.mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(pages)), ctypes.c_void_p(flags.ctypes.data))
        del view
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return float((flags & 1).mean())


def drop(file: Path) -> None:
    """Ask the system to forget the pages of a file."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load(path: Path, hyper: Hyper, repeats: int, cold: bool) -> dict[str, list[dict[str, float]]]:
    """Return passes of reading without a model."""
    reset_peak()
    signal, file = mapped(path), path / "values.npy"
    windows = Windows(len(signal))

    def contestant(name: str):  # type: ignore[no-untyped-def]
        schedule = Schedule.load(Path(item(name, name, path, 1, hyper, ("pgt-dcrnn", 2), path.parent).schedule))
        feeding, epochs = strategy(name).feeding, iter(range(repeats + 1))
        feed = FEEDS[feeding.store](signal, windows, "training", torch.device("cpu"))
        feed.materialise()
        deal, lanes = feeding.training(windows, hyper, 1), CpuLanes(name == "gen-dist-index")

        def once() -> dict[str, float]:
            if cold:
                drop(file)
            left = {"in memory, %": 100 * resident(file)} if cold else {}
            trace = execute(schedule, Loader(schedule, feed, deal.starts(0, next(epochs))), lanes, "cpu").trace
            gathering = int(trace.duration_ns[trace.op == Op.GATHER].sum()) / 1e9
            sizes = int(deal.sizes().sum())
            return {"seconds": trace.span_ns / 1e9, "windows/s": sizes / trace.span_ns * 1e9, "gathering, s": gathering, **left}

        return once

    found = in_turns({shown: contestant(name) for name, shown in CONTESTANTS.items()}, repeats + 1)
    return {who: passes[1:] for who, passes in found.items()}


def train(path: Path, hyper: Hyper, repeats: int) -> dict[str, list[dict[str, float]]]:
    """Return passes of the program that trains; PGT-I's model has 2 hidden."""
    reset_peak()
    items = tuple(item(name, name, path, 1, hyper, ("pgt-dcrnn", 2), path.parent) for name in CONTESTANTS)
    passes = run_job(Job("both", items, str(path.parent), ModelChoice("pgt-dcrnn", 2), repeats, 1, Settings(device="cpu")))
    return {CONTESTANTS[name]: [{"seconds": one.trace.span_ns / 1e9} for one in passes[name]] for name in CONTESTANTS}


def measure(name: str, batch: int, batches: int, what: str, setting: Setting) -> Passes:
    """Measure in a process whose memory is as in a real run."""
    hyper = Hyper(batch_size=batch, window=12, horizon=12, batches=batches, validate=False)
    path = stored(name, setting.scratch)
    if what == "train":
        return fresh(train, path, hyper, setting.repeats)
    return fresh(load, path, hyper, setting.repeats, what == "cold")


def cases(quick: bool) -> Iterator[Case]:
    """Yield reading warm and cold, and training."""
    name, batch = ("traffic-6-150", 4) if quick else (f"traffic-{SENSORS}-{steps_of(2)}", 16)
    for what, batches in (("warm", 3),) if quick else (("warm", 400), ("cold", 400), ("train", 4)):
        yield Case({"signal": name, "what": what, "batches": batches}, partial(measure, name, batch, batches, what))


SUBJECT = Subject(cases, 15)
