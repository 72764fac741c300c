"""Windows a second from a mapped file over those of the in-memory feed: `python benchmarks/bench_loader.py FOLDER [--gigabytes 2]`.

FOLDER needs the room; the signal stays there for another call. One process, repeat by repeat in turn, each with the lanes of a real run:
gen-dist-index prefetches on the host lane's thread and cuts windows from its block, index gathers in line. `load` drops a batch when it
would be computed on; `once prefetched` counts its GATHER rows alone: cutting a block that has arrived, against gathering from the array in
memory. `train` is the program that trains. Warm: the file lies in the page cache; cold: the system was asked to forget it
before each repeat, and the share that it did forget is printed.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from planned import item, machine, mapped, spread

from chronoscale.batching.signals.windows import Windows
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.real_exec.communication.collective import SingleRankCollective
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import QUIET
from chronoscale.real_exec.signals.feeds import FEEDS, Feed
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Hyper, ModelChoice

MAPPED, MEMORY = "gen-dist-index", "index"


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
    """Share of a file's pages that the system holds."""
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


def load(path: Path, hyper: Hyper, repeats: int, cold: bool) -> tuple[list[list[float]], list[list[float]]]:
    """Windows a second of the mapped and the in-memory feed, without a model: in all, and of its GATHER rows."""
    signal, found, made, contestants, left = mapped(path), [], [], [], [0.0]
    windows = Windows(len(signal))
    for name in (MAPPED, MEMORY):
        schedule = Schedule.load(Path(item(name, name, path, 1, hyper, ("pgt-dcrnn", 2), path.parent).schedule))
        feeding = strategy(name).feeding
        feed = FEEDS[feeding.store](signal, windows, "training", torch.device("cpu"))
        feed.materialise()
        contestants.append((schedule, feed, feeding.training(windows, hyper, 1), CpuLanes(name == MAPPED)))
    for repeat in range(repeats + 1):
        row, rows = [], []
        for schedule, feed, deal, lanes in contestants:
            if cold:
                drop(path / "values.npy")
                left.append(resident(path / "values.npy"))
            trace = execute(schedule, Loader(schedule, feed, deal.starts(0, repeat)), lanes, "cpu").trace
            row.append(int(deal.sizes().sum()) / trace.span_ns * 1e9)
            rows.append(int(deal.sizes().sum()) / int(trace.duration_ns[trace.op == Op.GATHER].sum()) * 1e9)
        found.append(row)
        made.append(rows)
    if cold:
        print(f"cold: at most {max(left):.0%} of the file were in memory at the start of a repeat")
    return found[1:], made[1:]


def train(path: Path, hyper: Hyper, repeats: int, hidden: int) -> list[list[float]]:
    """As `load`, with the program that trains."""
    items = tuple(item(name, name, path, 1, hyper, ("pgt-dcrnn", hidden), path.parent) for name in (MAPPED, MEMORY))
    job = Job("both", items, str(path.parent), ModelChoice("pgt-dcrnn", hidden), repeats, 1, Settings(device="cpu"))
    passes = run_job(job)
    seen = hyper.batch_size * hyper.batches
    return [[seen / passes[one.label][repeat].trace.span_ns * 1e9 for one in items] for repeat in range(repeats)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--sensors", type=int, default=11_160, help="default: those of PeMS")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batches", type=int, default=400, help="a repeat, of `load`")
    parser.add_argument("--steps", type=int, default=4, help="a repeat, of `train`; 0: none")
    parser.add_argument("--hidden", type=int, default=2, help="of pgt-dcrnn; PGT-I trains 2")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    if not QUIET.keys() <= os.environ.keys():  # memory as in a real run
        os.execve(sys.executable, [sys.executable, *sys.argv], {**QUIET, "OMP_NUM_THREADS": "1", **os.environ})
    torch.set_num_threads(1)
    set_threads(1)
    path = options.folder / "fitting"
    if not path.exists():
        traffic = TrafficSignal(options.sensors, int(options.gigabytes * 1e9) // (4 * options.sensors))
        store.save_signal(path, traffic, *traffic.graph(), path.name)
    hyper = Hyper(batch_size=options.batch, window=12, horizon=12, batches=options.batches, validate=False)
    measured: dict[str, list[list[float]]] = {}
    for heat in ("warm", "cold"):
        measured[f"load, {heat}"], measured[f"load, {heat}, once prefetched"] = load(path, hyper, options.repeats, heat == "cold")
    if options.steps:
        short = replace(hyper, batches=options.steps)
        measured["train, warm"] = train(path, short, options.repeats, options.hidden)
    print("| what | repeats | mapped, windows/s | in memory, windows/s | mapped / in memory |\n|---|---:|---:|---:|---:|")
    for what, rows in measured.items():
        cells = [spread([row[i] for row in rows], 1) for i in (0, 1)]
        print(f"| {what} | {len(rows)} | {cells[0]} | {cells[1]} | {spread([mine / other for mine, other in rows], 3)} |")
    signal = mapped(path)
    print(f"\n{len(signal):,} steps x {signal.num_nodes:,} sensors, batches of {options.batch}; {machine(1)}")


if __name__ == "__main__":
    main()
