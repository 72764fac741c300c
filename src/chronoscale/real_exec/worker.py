"""Worker: executes a job on this rank. Run directly, or by `torchrun -m chronoscale.real_exec.worker JOB.json`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
import torch.distributed as dist

from chronoscale.cuda_ext.backend import set_threads
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.csr import Variant
from chronoscale.datasets.snapshots.partition import Cut
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.collective import Alone, Collective, TorchCollective
from chronoscale.real_exec.environment import device_name
from chronoscale.real_exec.exchange import NoExchange, TorchExchange
from chronoscale.real_exec.interpreter import Pass, execute
from chronoscale.real_exec.job import LAUNCHER, Item, Job
from chronoscale.real_exec.lanes import lanes_for, threaded
from chronoscale.real_exec.program import CollectiveProgram, Program
from chronoscale.real_exec.signals.feeds import Feed
from chronoscale.real_exec.signals.program import WindowProgram
from chronoscale.real_exec.signals.recipe import Recipe, prepared
from chronoscale.real_exec.snapshots.cells import CellProgram
from chronoscale.real_exec.snapshots.material import Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import Part, Whole
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape


def run_job(job: Job) -> dict[str, list[Pass]]:
    """Warm up, then `repeats` passes over every item; training goes on from pass to pass. Called on every rank.

    Raises UserError when the process group does not have a schedule's ranks, or a GPU is asked for and absent.
    """
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    device = pick_device(job.device, rank)
    torch.set_num_threads(job.threads)
    set_threads(job.threads)
    together: Collective = TorchCollective() if ranks > 1 else Alone()
    schedules = {item.label: Schedule.load(Path(item.schedule)) for item in job.items}
    for schedule in schedules.values():
        if schedule.ranks != ranks:
            raise UserError(f"schedule '{schedule.name}' is for {schedule.ranks} ranks, {ranks} are running")
    material: dict[tuple[str, str], Material] = {}
    passes: dict[str, list[Pass]] = {item.label: [] for item in job.items}
    once: dict[str, list[Pass]] = {}
    feeds: dict[str, Feed] = {}
    with ExitStack() as stack:
        programs: dict[str, Program] = {}
        for item in job.items:
            if schedules[item.label].kind == "windows":
                programs[item.label], once[f"{item.label}-prepare"] = prepared(
                    recipe(job, item), schedules[item.label], rank, device, together, stack, feeds
                )
            else:
                programs[item.label] = _program(job, item, schedules[item.label], rank, device, together, material)
        lanes = {label: lanes_for(device, threaded(schedules[label], job.transfer_thread)) for label in programs}
        for _ in range(job.warmup + job.repeats):
            for label, program in programs.items():
                done = execute(schedules[label], program, lanes[label], device_name(device))
                passes[label].append(replace(done, errors=program.errors.means) if isinstance(program, WindowProgram) else done)
        together.barrier()  # none ends what others still read
    return {label: done[job.warmup :] for label, done in passes.items()} | {label: done for label, done in once.items() if done}


def recipe(job: Job, item: Item) -> Recipe:
    """What a job says of one item's training on windows."""
    return Recipe(
        item.dataset, item.prepare, item.hyper, job.model, job.hidden, job.layers, job.hops, job.heads, job.learning_rate, job.seed
    )


def _program(
    job: Job,
    item: Item,
    schedule: Schedule,
    rank: int,
    device: torch.device,
    together: Collective,
    material: dict[tuple[str, str], Material],
) -> Program:
    if all(Op(code) in COLLECTIVES for code in np.unique(schedule.op)):
        return CollectiveProgram(schedule, rank, device, together)
    shape = model_shape(job.model, job.inputs, job.hidden, job.layers)
    key = (item.dataset, item.hyper.variant)
    if key not in material:
        snapshots = store.load(item.dataset)
        assert isinstance(snapshots, SnapshotSequence)
        variant: Variant = "exact" if item.hyper.variant == "exact" else "as-published"
        material[key] = Material(snapshots, job.inputs, variant, job.seed, device.type == "cuda", shape.spatial == "gcn")
    model, host = SnapshotModel(shape, job.seed), material[key]
    if schedule.kind == "groups":
        return SnapshotProgram(schedule, rank, host, model, item.hyper, device, together, job.learning_rate)
    if schedule.kind not in ("snapshots", "parts"):
        raise UserError(f"schedule '{schedule.name}' is of kind '{schedule.kind}', which this version cannot execute")
    region = Whole(host) if schedule.kind == "snapshots" else Part(host, _cut(item, schedule), rank, device)
    exchange = TorchExchange() if schedule.ranks > 1 else NoExchange()
    return CellProgram(schedule, rank, region, model, item.hyper, device, together, exchange, job.learning_rate)


def _cut(item: Item, schedule: Schedule) -> Cut:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on vertex parts, and its item names no partition")
    return Cut(np.load(item.parts), schedule.ranks)


def pick_device(name: str, rank: int) -> torch.device:
    """'auto': a GPU where there is one, one a rank of this machine. Raises UserError for 'cuda' without a GPU, or with too few."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(f"device '{name}' asked for, no CUDA device is available")
    if rank >= torch.cuda.device_count():
        raise UserError(f"rank {rank} has no GPU: there are {torch.cuda.device_count()}; run fewer ranks, or set device: cpu")
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    return device


def save_passes(passes: Mapping[str, list[Pass]], out: Path) -> None:
    """Of every item one trace a repeat, losses float64 [repeats, iterations] and errors float64 [repeats, 3] as .npy; a file appears whole
    or not at all."""
    for label, done in passes.items():
        for repeat, one in enumerate(done):
            part = out / f".{label}-r{repeat}.parquet"
            one.trace.save(part)
            os.replace(part, out / f"{label}-r{repeat}.parquet")
        for kind, values in (("losses", [one.losses for one in done]), ("errors", [one.errors for one in done])):
            part = out / f".{label}-{kind}.npy"
            np.save(part, np.stack(values))
            os.replace(part, out / f"{label}-{kind}.npy")


def main(path: str) -> int:
    """Entry point of a rank; exit code 2 for a user's mistake, 1 for a failure of the machine."""
    job = Job.load(Path(path))

    def work() -> None:
        passes = run_job(job)  # ends with a sum over ranks: none leaves while another still computes
        if not dist.is_initialized() or dist.get_rank() == 0:
            save_passes(passes, Path(job.out))

    return serve(job.device, work)


def serve(device: str, work: Callable[[], None]) -> int:
    """Join the process group where there is one, work, and turn errors into a line and an exit code."""
    try:
        if LAUNCHER in os.environ:
            follow(int(os.environ[LAUNCHER]))
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world > 1:
            cuda = device != "cpu" and torch.cuda.is_available() and torch.cuda.device_count() >= world
            dist.init_process_group("nccl" if cuda else "gloo")
        work()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (MachineError, OSError, MemoryError, torch.OutOfMemoryError) as error:
        print(f"error: {str(error).splitlines()[0] if str(error) else type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def follow(launcher: int) -> None:
    """End this rank within a second of its launcher, which may have been killed: nobody else would stop it from writing."""

    def watch() -> None:
        while Path(f"/proc/{launcher}").exists():
            time.sleep(1)
        os._exit(1)

    if not Path("/proc/self").exists():
        raise MachineError("chronoscale runs on Linux: there is no /proc here")
    threading.Thread(target=watch, daemon=True).start()


def leave(code: int) -> NoReturn:
    """End this process without finalising the interpreter: gloo's threads outlive their group and now and then abort it there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
