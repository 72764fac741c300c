"""Moved runs: paths of a training's job where its run lies in another folder than when it was made."""

from __future__ import annotations

from pathlib import Path

from chronoscale.real_exec.job import Job


def moved(job: Job, run: Path) -> Job:
    """Return a training's job with paths below the run's folder as it was then put below `run`; other paths, such as that of data which
    stay where they are, are as they were."""
    before = Path(job.out).parent

    def place(path: str) -> str:
        return str(run / Path(path).relative_to(before)) if Path(path).is_relative_to(before) else path

    return job.map_paths(place)
