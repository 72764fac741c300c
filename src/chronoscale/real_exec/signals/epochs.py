"""Epochs: ranks train on windows of a signal, epoch after epoch, with a checkpoint after each. Run directly or by torchrun, as `worker`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import torch
import torch.distributed as dist

from chronoscale.cuda_ext.backend import set_threads
from chronoscale.errors import UserError
from chronoscale.real_exec.checkpoint import EpochRecord, keep, restore
from chronoscale.real_exec.collective import Alone, Collective, TorchCollective
from chronoscale.real_exec.environment import device_name
from chronoscale.real_exec.interpreter import execute
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.lanes import lanes_for, threaded
from chronoscale.real_exec.signals.recipe import prepared
from chronoscale.real_exec.worker import leave, pick_device, recipe, serve
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import Feeding

ENTRY = "chronoscale.real_exec.signals.epochs"
STAGE, TEST = "training", "test.json"
TRACED = 8  # epochs whose traces are kept


def train(job: Job) -> None:
    """The job's one item for `repeats` epochs, from the last checkpoint on. Called on every rank.

    Then the test windows are predicted once, and TEST holds their MAE, RMSE and MAPE. An epoch's order of windows depends on the seed and
    its number alone: a run that was cut off ends at the weights of one that was not.

    Raises UserError when the schedule is for another number of ranks, or the checkpoint is not of this model.
    """
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    folder, device, item = Path(job.out), pick_device(job.device, rank), job.items[0]
    torch.set_num_threads(job.threads)
    set_threads(job.threads)
    together: Collective = TorchCollective() if ranks > 1 else Alone()
    schedule = Schedule.load(Path(item.schedule))
    if schedule.ranks != ranks:
        raise UserError(f"schedule '{schedule.name}' is for {schedule.ranks} ranks, {ranks} are running")
    looked = time.time_ns()
    with ExitStack() as stack:
        program, _ = prepared(recipe(job, item), schedule, rank, device, together, stack)
        begin = restore(folder, program.model, program.optimizer, device)
        program.begin(begin)
        lanes = lanes_for(device, threaded(schedule, job.transfer_thread))
        for epoch in range(begin, job.repeats):
            start = time.time_ns()
            done = execute(schedule, program, lanes, device_name(device))
            end = time.time_ns()
            if rank == 0:
                if epoch - begin < TRACED:
                    done.trace.save(folder / "epochs" / f"{epoch:06d}.parquet")
                errors = tuple(program.errors.means.tolist())
                switch = start - looked if epoch == begin else 0
                record = EpochRecord(epoch, 0, STAGE, schedule.name, switch, start, end, tuple(done.losses.tolist()), errors)
                keep(folder, record, program.model, program.optimizer)
        tested = program.evaluate(Feeding.of(schedule).test(program.feed.windows, item.hyper, ranks))
        if rank == 0:
            (folder / TEST).write_text(json.dumps(tested.means.tolist()))
        together.barrier()  # none ends what others still read


def main(path: str) -> int:
    """Entry point of a rank; exit codes as `worker.main`."""
    job = Job.load(Path(path))
    return serve(job.device, lambda: train(job))


if __name__ == "__main__":
    leave(main(sys.argv[1]))
