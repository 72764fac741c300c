"""Said: how far a job has come, from its first rank to whoever waits for it."""

from __future__ import annotations

import time
from pathlib import Path

from chronoscale.real_exec.job import Job

EVERY_S = 1.0  # between two lines, so that short passes are not held up


def _file(job: Job) -> Path:
    return Path(job.out) / f".{job.name}.said"


class Said:
    """The first rank's line, written between passes and never within one."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job, self._first, self._last = job, rank == 0, 0.0

    def __call__(self, number: int, place: int) -> None:
        """Which pass begins, and over which item, both from 0."""
        if self._first and (now := time.monotonic()) - self._last >= EVERY_S:
            self._last, count, items = now, self._job.warmup + self._job.repeats, len(self._job.items)
            _file(self._job).write_text(f"{self._job.name}: pass {number + 1} of {count}, schedule {place + 1} of {items}")


def heard(job: Job) -> str:
    """The last line; '' before the first."""
    return file.read_text() if (file := _file(job)).exists() else ""
