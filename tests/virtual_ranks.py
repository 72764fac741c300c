"""One rank of several real ones, which virtual ranks must equal, job after job: `main(folder)`.

A case is a job of one item, `LABEL.json`. Its passes, as rank 0 has them, go to `LABEL.passes.json`; its epochs to the job's `out`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rank_cases import serve_cases

from chronoscale.real_exec.binding import kind_of
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.virtual import VirtualRank
from chronoscale.real_exec.snapshots.published_plans import PLAN, PlanRecord, plan_folder
from chronoscale.real_exec.training.checkpoint import CHECKPOINT
from chronoscale.real_exec.training.epoch_loop import train
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.schedule import Schedule

Numbers = dict[str, list[float]]


def prepare(job: Job) -> Job:
    """Make the folder of a job's training, and the record of its only plan."""
    folder = Path(job.out)
    (folder / "epochs").mkdir(parents=True)
    plan_folder(folder, 0).mkdir(parents=True)
    (plan_folder(folder, 0) / PLAN).write_text(json.dumps(asdict(PlanRecord("training"))))
    return job


def passes_of(passes: Sequence[Pass]) -> Numbers:
    """Losses, scores and counts of passes, by name."""
    numbers: dict[str, list[float]] = {"losses": [loss for each in passes for loss in each.losses.tolist()]}
    for kind in ("scores", "counts"):
        for each in passes:
            for key, value in getattr(each, kind).items():
                numbers.setdefault(f"{kind} {key}", []).append(value)
    return numbers


def epochs_of(job: Job) -> Numbers:
    """Losses and scores of a job's epochs, its test's scores, and its last model, by name."""
    folder, records = Path(job.out), epoch_records(Path(job.out))
    numbers: dict[str, list[float]] = {"losses": [loss for record in records for loss in record.losses]}
    for record in records:
        for key, value in record.scores.items():
            numbers.setdefault(f"validation {key}", []).append(value)
    if (folder / TEST).exists():
        numbers |= {f"test {key}": [value] for key, value in json.loads((folder / TEST).read_text()).items()}
    saved: dict[str, Any] = torch.load(folder / CHECKPOINT, weights_only=True)
    return numbers | {f"model {name}": value.double().flatten().tolist() for name, value in saved["model"].items()}


def execute(job: Job, virtual: VirtualRank | None = None) -> Numbers:
    """Execute passes and, where its kind is trained so, epochs of a job on this rank; return what came of the passes."""
    passes = passes_of(run_job(job, virtual)[job.items[0].label])
    if kind_of(Schedule.load(Path(job.items[0].schedule))).plans is not None:
        train(job, virtual)
    return passes


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    for label in labels:
        numbers = execute(Job.load(folder / f"{label}.json"))
        if rank == 0:
            (folder / f"{label}.passes.json").write_text(json.dumps(numbers))


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
