"""Epoch loop: trains a job's one item epoch after epoch, with a checkpoint after each. It is started like `real_exec.worker`.

In the folder `out` of the job: `epochs/<number>.json` and, for the first epochs of a plan, its trace; `checkpoint.pt`; at the end
`ended.json`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.real_exec.binding import kind_of, run_preparation
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.cuda_graphs import with_cuda_graphs
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.rank import leave, serve
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual
from chronoscale.real_exec.training.checkpoint import CHECKPOINT, restore, save_epoch
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.real_exec.training.plans import Plan
from chronoscale.real_exec.training.training_end import ENDED, TrainingEnd, remove_end
from chronoscale.records import write_atomically

ENTRY = "chronoscale.real_exec.training.epoch_loop"
TRACED = 8  # epochs of a plan whose traces are kept


def train(job: Job, virtual: VirtualRank | None = None) -> None:
    """Train a job's item on this rank, from the last checkpoint on, until its `repeats` epochs are done or its plans end early.

    Called on every rank. Rank 0 writes a record and a checkpoint after each epoch. virtual: which of the virtual ranks of this process it
    is, whose epochs have no times and no traces; None: this process is the rank. Raises UserError when a plan is for another number of
    ranks, or the checkpoint is of another model.
    """
    item = job.items[0]
    folder = Path(job.out)
    with open_context(job.settings, virtual) as context:
        first = context.load_schedule(item.schedule)
        context.broadcast_files(folder, CHECKPOINT, "epochs/*.json", "plans/**/*", "memory/*")
        if (follow := kind_of(first).plans) is None:
            raise UserError(f"schedule '{first.name}' is of kind '{first.kind}', which is not trained epoch after epoch")
        plans = follow(job, first, context)
        begin = restore(folder, plans, context.device)
        context.collective.barrier()
        current: Plan | None = None
        last_end = time.time_ns()
        run_preparation(item, job.model, context)
        scores: list[Mapping[str, float]] = [record.scores for record in epoch_records(folder) if record.epoch < begin]
        over = bool(scores) and plans.after_epoch(scores)
        if context.rank == 0 and begin < job.repeats and not over:
            remove_end(folder)  # of fewer epochs
        for epoch in range(begin, 0 if over else job.repeats):
            plan, switch = plans.at(epoch), 0
            plans.learner.begin(epoch)
            positions.own_page().set_text(f"{job.name}: epoch {epoch + 1} of {job.repeats}")
            start = time.time_ns()
            if plan is not current:
                current = plan
                lanes = context.lanes(plan.schedule)
                traced = 0
                switch = start - last_end
                program = with_cuda_graphs(plan.program, lanes, context, plan.timed)
            result = execute(plan.schedule, program, lanes, device_name(context.device), f"epoch {epoch}")
            end = time.time_ns()
            scores.append(result.scores)
            over = plans.after_epoch(scores)
            if context.rank == 0:
                if traced < TRACED and not context.virtual:
                    result.trace.save(folder / "epochs" / f"{epoch:06d}.parquet")
                losses = tuple(result.losses.tolist())
                followed = (plan.number, plan.stage, plan.schedule.name)
                times = (0, 0, 0) if context.virtual else (switch, start, end)
                scored, counts = dict(result.scores), dict(result.counts)
                record = EpochRecord(
                    epoch, *followed, *times, losses, scored, plans.learner.rates(), counts, result.launched, context.ranks
                )
                save_epoch(folder, record, plans.learner, plans.extra_state())
            traced, last_end = traced + 1, time.time_ns()
            if over:
                break
        if context.rank == 0:
            write_atomically(folder / ENDED, json.dumps(asdict(TrainingEnd(len(scores), plans.best(scores)))).encode())
        plans.end()


def train_here(job: Job) -> None:
    """Train a job's item on the rank that this process is, or, where the job has virtual ranks, on all of them. Raises as `train`, and as
    `run_virtual`.
    """
    if job.settings.virtual:
        run_virtual(partial(train, job), job.settings.virtual, job.name)
    else:
        train(job)


def main(path: str) -> int:
    """Train the job file at `path` on this rank, a process that the launcher or torchrun has started; return its exit code
    (`ranks.rank.serve`).
    """
    job = Job.load(Path(path))
    return serve(job.settings.device, lambda: train_here(job), job.modules, job.settings.share_gpu)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
