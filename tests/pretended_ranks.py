"""One rank of several, each over a pretended GPU of its own, case after case: `main(folder)`.

A case is a job of one item, `LABEL.json`: trained on the CPU, then on the pretended GPU. Every rank leaves its losses on both, float64
[2, passes, iterations], and in words what a GPU would have minded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from emulation import library
from pretended import pretended
from rank_cases import serve_cases

from chronoscale.real_exec.job import Job
from chronoscale.real_exec.worker import run_job


def losses(job: Job, device: str) -> list[np.ndarray]:
    """Of the passes of its only item."""
    settings = replace(job.settings, device=device)
    return [one.losses for one in run_job(replace(job, settings=settings))[job.items[0].label]]


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    for label in labels:
        job = Job.load(folder / f"{label}.json")
        here = losses(job, "cpu")
        with pretended(library()) as findings:
            there = losses(job, "cuda")
        np.save(folder / f"{label}-{rank}.npy", np.array([here, there]))
        (folder / f"{label}-{rank}.txt").write_text(str(findings))


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
