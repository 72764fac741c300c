"""A generated signal of 20 GB on two ranks under 4 GiB each: `python benchmarks/bench_larger.py FOLDER [--gigabytes 20] [--limit 4]`.

FOLDER needs the room; the signal stays there for another call. Ranks run gen-dist-index, with RLIMIT_DATA set before they
touch data; peaks are VmHWM, which counts pages of files, too. First every window of the series (training, validation, test) is read and
cut once, then the program that trains does `--steps` optimiser steps.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from planned import item, machine, mapped

from chronoscale.batching.signals.windows import Deal, Windows
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.real_exec.communication.collective import TorchCollective
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.rank import serve
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.real_exec.signals.program import PreparationProgram
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper, ModelChoice

CPU, NAME = torch.device("cpu"), "gen-dist-index"
GIB = 1 << 30


def peak() -> float:
    """VmHWM of this process, GiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / (1 << 20)


def generate(options: argparse.Namespace) -> None:
    """The signal, block by block; what is there stays."""
    path = Path(options.folder) / "larger"
    if not path.exists():
        start, traffic = time.perf_counter(), TrafficSignal(options.sensors, int(options.gigabytes * 1e9) // (4 * options.sensors))
        store.save_signal(path, traffic, *traffic.graph(), path.name)
        print(f"generated {time.perf_counter() - start:.0f} s, peak {peak():.2f} GiB")
    size = (path / "values.npy").stat().st_size
    print(f"{len(mapped(path)):,} steps x {mapped(path).num_nodes:,} sensors, {size / 1e9:.2f} GB", flush=True)


def work(options: argparse.Namespace) -> None:
    """One rank's part 1 or 2."""
    out, path = Path(options.folder), Path(options.folder) / "larger"
    rank, ranks = dist.get_rank(), dist.get_world_size()
    resource.setrlimit(resource.RLIMIT_DATA, (int(options.limit * GIB),) * 2)
    torch.set_num_threads(1)
    set_threads(1)
    try:
        np.empty(int(options.limit * GIB), np.uint8)
        sys.exit("the limit does not hold")
    except MemoryError:
        pass
    hyper = Hyper(batch_size=options.batch, window=12, horizon=12, batches=options.steps, validate=False)
    planned, begin = item(f"{rank}", NAME, path, ranks, hyper, ("pgt-dcrnn", options.hidden), out), time.perf_counter()
    if options.part == "train":
        job = Job("train", (planned,), str(out), ModelChoice("pgt-dcrnn", options.hidden), 1, settings=Settings(device="cpu"))
        losses = run_job(job)[planned.label][0].losses
        said = f"{len(losses)} optimiser steps, loss of the first ten {losses[:10].mean():.2f}, of the last ten {losses[-10:].mean():.2f}"
    else:
        signal, prepare = mapped(path), Schedule.load(Path(planned.prepare))
        windows = Windows(len(signal))
        feed = FEEDS[strategy(NAME).feeding.store](signal, windows, "training", CPU)
        context = Context(rank=rank, collective=TorchCollective())
        execute(prepare, PreparationProgram(prepare, feed, context), CpuLanes(False), "cpu")
        seen = torch.zeros(len(windows), dtype=torch.int32)
        for starts in Deal(range(len(windows)), ranks, options.batch, local=True).starts(rank, 0):
            batch = feed.cut(feed.read(starts), starts)
            assert batch.shape[:2] == (len(starts), windows.reach) and not torch.isnan(batch[-1, -1]).any()
            seen[torch.from_numpy(starts)] += 1
        dist.all_reduce(seen)
        said = f"{int((seen == 1).sum()):,} of {len(windows):,} windows once, {int((seen > 1).sum())} more often"
    both = [torch.zeros(1) for _ in range(ranks)]
    dist.all_gather(both, torch.tensor([peak()]))
    if rank == 0:
        peaks = ", ".join(f"{float(one):.2f}" for one in both)
        told = f"{options.part}: {said}; {time.perf_counter() - begin:.0f} s; peaks {peaks} GiB of {options.limit:g}"
        (out / f"{options.part}.txt").write_text(told)


def main(path: str) -> int:
    """Entry point of a rank: one part, of options in a file."""
    options = argparse.Namespace(**json.loads(Path(path).read_text()))
    return serve("cpu", lambda: work(options))


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--sensors", type=int, default=11_160, help="default: those of PeMS")
    parser.add_argument("--limit", type=float, default=4, help="GiB a rank")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=2, help="of pgt-dcrnn; PGT-I trains 2")
    options = parser.parse_args()
    generate(options)
    folder = Path(options.folder)
    for part in ("iterate", "train"):
        (path := folder / "options.json").write_text(json.dumps({**vars(options), "part": part}))
        wait(start("bench_larger", path, options.ranks, 1), part)
        print((folder / f"{part}.txt").read_text(), flush=True)
    print(machine(1))


if __name__ == "__main__":
    command()
