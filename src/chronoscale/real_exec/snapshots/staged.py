"""Staged: the data plane of REAL's three stages (REAL §3.3). Run directly or by torchrun, as `worker`.

Ranks train epoch after epoch with one model and one optimiser, and take up a new plan at the end of an epoch when there is one; they
never wait for it.

In the job's folder: `plans/<number>/` (schedule.parquet, plan.json, forms/), each there whole or not at all; `epochs/<number>.json` and,
for the first epochs of a plan, its trace; `checkpoint.pt` after every epoch.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from chronoscale.cuda_ext.backend import set_threads
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.csr import Variant
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.real_exec.checkpoint import EpochRecord, keep, restore
from chronoscale.real_exec.collective import Alone, Collective, TorchCollective
from chronoscale.real_exec.environment import device_name
from chronoscale.real_exec.interpreter import execute
from chronoscale.real_exec.lanes import lanes_for
from chronoscale.real_exec.snapshots.material import Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.shipment import adopt
from chronoscale.real_exec.worker import leave, pick_device, serve
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper

ENTRY = "chronoscale.real_exec.snapshots.staged"
TRACED = 8  # epochs of a plan whose traces are kept


@dataclass(frozen=True, slots=True)
class StagedJob:
    """What ranks train, until `epochs` are done."""

    name: str
    folder: str
    dataset: str
    hyper: Hyper
    epochs: int
    model: str
    hidden: int
    layers: int
    inputs: int
    threads: int
    learning_rate: float
    seed: int = 0
    device: str = "auto"
    transfer_thread: bool = False

    def save(self, path: Path) -> None:
        """JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> StagedJob:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        return cls(**{**data, "hyper": Hyper(**{**data["hyper"], "fanout": tuple(data["hyper"]["fanout"])})})


def newest(folder: Path) -> int:
    """The highest plan number that is there, -1 for none."""
    return max((int(path.name) for path in (folder / "plans").glob("[0-9]*")), default=-1)


def material_of(job: StagedJob, pin: bool) -> Material:
    """The job's snapshots, nothing prepared yet."""
    snapshots = store.load(job.dataset)
    assert isinstance(snapshots, SnapshotSequence)
    variant: Variant = "exact" if job.hyper.variant == "exact" else "as-published"
    weighted = model_shape(job.model, job.inputs, job.hidden, job.layers).spatial == "gcn"
    return Material(snapshots, job.inputs, variant, job.seed, pin, weighted)


def model_of(job: StagedJob) -> SnapshotModel:
    """The untrained model."""
    return SnapshotModel(model_shape(job.model, job.inputs, job.hidden, job.layers), job.seed)


def train(job: StagedJob) -> None:
    """Epochs from the last checkpoint on. Called on every rank.

    Raises UserError when a plan is for another number of ranks, or the checkpoint is not of this model.
    """
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    folder, device = Path(job.folder), pick_device(job.device, rank)
    torch.set_num_threads(job.threads)
    set_threads(job.threads)
    together: Collective = TorchCollective() if ranks > 1 else Alone()
    pin = device.type == "cuda"
    material, model = material_of(job, pin), model_of(job).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=job.learning_rate)
    begin = restore(folder, model, optimizer, device)
    lanes, held, program, stage, traced = lanes_for(device, job.transfer_thread), -1, None, "", 0
    for epoch in range(begin, job.epochs):
        number = _sum(newest(folder) if rank == 0 and epoch else 0, together, device)  # rank 0 looks at an epoch's end, all follow
        looked = time.time_ns()
        if program is None or number != held:
            at = folder / "plans" / f"{number:03d}"
            schedule = Schedule.load(at / "schedule.parquet")
            if schedule.ranks != ranks:
                raise UserError(f"schedule '{schedule.name}' is for {schedule.ranks} ranks, {ranks} are running")
            for earlier in range(number + 1):
                if (shipped := folder / "plans" / f"{earlier:03d}" / "forms").exists():
                    adopt(shipped, material.stores(), pin)
            program = SnapshotProgram(schedule, rank, material, model, job.hyper, device, together, job.learning_rate, optimizer=optimizer)
            held, stage, traced = number, str(json.loads((at / "plan.json").read_text())["stage"]), 0
        start = time.time_ns()
        done = execute(schedule, program, lanes, device_name(device))
        end = time.time_ns()
        if rank == 0:
            if traced < TRACED:
                done.trace.save(folder / "epochs" / f"{epoch:06d}.parquet")
            record = EpochRecord(epoch, number, stage, schedule.name, start - looked, start, end, tuple(done.losses.tolist()))
            keep(folder, record, model, optimizer)
        traced += 1
    together.barrier()


def _sum(value: int, together: Collective, device: torch.device) -> int:
    shared = torch.tensor([value], dtype=torch.int64, device=device)
    together.all_reduce(shared)
    return int(shared.item())


def main(path: str) -> int:
    """Entry point of a rank; exit codes as `worker.main`."""
    job = StagedJob.load(Path(path))
    return serve(job.device, lambda: train(job))


if __name__ == "__main__":
    leave(main(sys.argv[1]))
