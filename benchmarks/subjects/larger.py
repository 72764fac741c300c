"""A generated signal of 20 GB is read and trained on by two ranks that may have 4 GiB each.

Ranks run gen-dist-index, with RLIMIT_DATA set before they touch data; peaks are VmHWM, which counts pages of files, too. `iterate` reads
and cuts every window of the series (training, validation, test) once; `train` does 100 optimiser steps. The scratch folder (TMPDIR) needs
the room. A contestant is a rank.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from core.case import Case, Passes, Setting, Subject
from setups.process import memory
from setups.signals import SENSORS, item, mapped, steps_of, stored

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.cuda_ext.native.backend import set_threads
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

NAME, MODEL, RANKS = "gen-dist-index", ("pgt-dcrnn", 2), 2


def limit(bytes_: int) -> None:
    """Limit this process's data, and assert that the limit holds."""
    resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))
    try:
        np.empty(bytes_, np.uint8)
    except MemoryError:
        return
    raise AssertionError("the limit does not hold")


def iterate(path: Path, prepared: Path, batch: int) -> dict[str, float]:
    """Read and cut every window on one of all ranks; assert that each came once."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    signal, prepare = mapped(path), Schedule.load(prepared)
    windows = Windows(len(signal))
    feed = FEEDS[strategy(NAME).feeding.store](signal, windows, "training", torch.device("cpu"))
    execute(prepare, PreparationProgram(prepare, feed, Context(rank=rank, collective=TorchCollective())), CpuLanes(False), "cpu")
    seen = torch.zeros(len(windows), dtype=torch.int32)
    for starts in WindowAssignment(range(len(windows)), ranks, batch, local=True).starts(rank, 0):
        cut = feed.cut(feed.read(starts), starts)
        assert cut.shape[:2] == (len(starts), windows.reach) and not torch.isnan(cut[-1, -1]).any()
        seen[torch.from_numpy(starts)] += 1
    dist.all_reduce(seen)
    assert int(seen.max()) <= 1, "a window came twice"
    return {"windows, %": 100 * float((seen == 1).float().mean())}


def work(given: dict[str, str], gib: float, batch: int, steps: int) -> None:
    """Do one rank's part, and write what it took."""
    path, out, rank = Path(given["signal"]), Path(given["out"]), dist.get_rank()
    limit(int(gib * (1 << 30)))
    torch.set_num_threads(1)
    set_threads(1)
    hyper = Hyper(batch_size=batch, window=12, horizon=12, batches=steps, validate=False)
    planned, begin = item(f"{rank}", NAME, path, dist.get_world_size(), hyper, MODEL, out), time.perf_counter()
    if given["what"] == "train":
        job = Job("train", (planned,), str(out), ModelChoice(*MODEL), 1, settings=Settings(device="cpu"))
        losses = run_job(job)[planned.label][0].losses
        figures = {"steps": len(losses), "first losses": float(losses[:10].mean()), "last losses": float(losses[-10:].mean())}
    else:
        figures = iterate(path, Path(planned.prepare), batch)
    peak = memory("VmHWM") / (1 << 30)
    (out / f"rank-{rank}.json").write_text(json.dumps({"seconds": time.perf_counter() - begin, **figures, "peak, GiB": peak}))


def main(path: str) -> int:
    """Entry point of a rank: one part, its options in a file."""
    return serve("cpu", lambda: work(**json.loads(Path(path).read_text())))


def measure(name: str, gib: float, batch: int, steps: int, what: str, setting: Setting) -> Passes:
    """Start the ranks."""
    arguments = {"what": what, "signal": str(stored(name, setting.scratch)), "out": str(setting.scratch)}
    file = setting.scratch / "options.json"
    file.write_text(json.dumps({"given": arguments, "gib": gib, "batch": batch, "steps": steps}))
    wait(start("subjects.larger", file, RANKS, 1), what)
    return {f"rank {rank}": [json.loads((setting.scratch / f"rank-{rank}.json").read_text())] for rank in range(RANKS)}


def cases(quick: bool) -> Iterator[Case]:
    """Yield reading and training."""
    name, gib, batch, steps = ("traffic-6-2000", 4.0, 8, 4) if quick else (f"traffic-{SENSORS}-{steps_of(20)}", 4.0, 16, 100)
    for what in ("iterate", "train"):
        yield Case({"signal": name, "limit": gib, "what": what}, partial(measure, name, gib, batch, steps, what))


SUBJECT = Subject(cases, 1)
