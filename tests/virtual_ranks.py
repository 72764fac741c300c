"""One rank of several real ones, job after job, beside which virtual ranks are held: `main(folder)`.

A case is a job of one item, `LABEL.json`. Every rank trains its passes and its epochs; rank 0 leaves what came of the passes,
`LABEL.pass.json`, and epochs where other ranks would, in the job's `out`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rank_cases import serve_cases

from chronoscale.real_exec.binding import kind_of
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.epoch_loop import train
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.schedule import Schedule


def described(passes: Mapping[str, Sequence[Pass]]) -> dict[str, Any]:
    """Losses, scores and counts of the passes of each item."""
    return {label: [[one.losses.tolist(), dict(one.scores), dict(one.counts)] for one in each] for label, each in passes.items()}


def trains(job: Job) -> bool:
    """Whether its schedule is of a kind that is trained epoch after epoch."""
    return kind_of(Schedule.load(Path(job.items[0].schedule))).plans is not None


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    for label in labels:
        job = Job.load(folder / f"{label}.json")
        passes = described(run_job(replace(job, out="")))
        if rank == 0:
            (folder / f"{label}.pass.json").write_text(json.dumps(passes))
        if trains(job):
            train(job)


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
