"""Watch: measures what else the cores did while something was timed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil

from chronoscale.harness.runs.noise import Noise
from chronoscale.real_exec.execution.passes import Pass

TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Measurement of what else this machine's cores do, from its creation on, while `chronoscale bench` or `profile` times something.

    What this process does is not noise, nor what its descendants do, such as ranks that a server forks.
    """

    def __init__(self) -> None:
        self.load = os.getloadavg()[0]
        self._cores = _core_seconds()
        self._own = own_seconds()

    def noise(self, timed: Sequence[Sequence[Pass]], pinned: int = 0, attempt: int = 1) -> Noise:
        """Return the record of what went on from the watch's creation until now, beside passes (timed repetitions).

        timed: the passes of each thing that was timed. pinned: cores that each rank had to itself, 0: unknown. attempt: number of this
        attempt.
        """
        total, busy, steal = (now - before for now, before in zip(_core_seconds(), self._cores, strict=True))
        own = own_seconds() - self._own
        whole = max(total, 1 / TICKS)
        passes = min((len(passes) for passes in timed), default=0)
        cores = len(os.sched_getaffinity(0))
        return Noise(self.load, steal / whole, max(busy - own, 0.0) / whole, spread(timed), passes, cores, pinned, attempt)


def spread(timed: Sequence[Sequence[Pass]]) -> float:
    """Return by how much passes (timed repetitions) of a schedule vary: the largest relative standard deviation of their times over
    schedules.

    timed: the passes of each schedule; 0.0 where none has several.
    """
    spans = [np.array([each.trace.span_ns for each in passes], np.float64) for passes in timed if len(passes) > 1]
    return max((float(span.std() / span.mean()) for span in spans if span.mean() > 0), default=0.0)


def _core_seconds() -> tuple[float, float, float]:
    """Seconds of all cores since the machine started: all, those in use, those that the hypervisor took (proc_stat(5))."""
    columns = [int(ticks) / TICKS for ticks in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _, _, irq, soft, steal = columns
    return sum(columns), user + nice + system + irq + soft, steal


def own_seconds() -> float:
    """Return the CPU seconds that this process and its descendants have used: those alive, and those that had a parent to wait for them."""
    process = psutil.Process()
    seconds = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            seconds += sum(each.cpu_times()[:4])  # user, system, and both of children that have ended
        except psutil.NoSuchProcess:  # it ended meanwhile, and its parent has its time
            continue
    return seconds
