"""Watch: measures what else the cores did while something was timed."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chronoscale.harness.runs.noise import Noise
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.ranks.rank_group import used_s

TICKS = os.sysconf("SC_CLK_TCK")
STAT = Path("/proc/stat")


class Watch:
    """Measurement of what else the cores of this process do, from its creation on, while `chronoscale bench` or `profile` times something.

    What this process does is not noise, nor what its ranks do. Ranks and other child processes are seen once they have ended.
    """

    def __init__(self) -> None:
        self.load = os.getloadavg()[0]
        self._cores = core_seconds()
        self._own = own_seconds()

    def noise(self, timed: Sequence[Sequence[Pass]], pinned: int = 0, attempt: int = 1) -> Noise:
        """Return the record of what went on from the watch's creation until now, beside passes (timed repetitions).

        timed: the passes of each thing that was timed. pinned: cores that each rank had to itself, 0: unknown. attempt: number of this
        attempt.
        """
        total, busy, steal = (now - before for now, before in zip(core_seconds(), self._cores, strict=True))
        own = own_seconds() - self._own
        whole = max(total, 1 / TICKS)
        passes = min((len(passes) for passes in timed), default=0)
        cores = len(os.sched_getaffinity(0))
        others, clock_ns = max(busy - own, 0.0) / whole, max((each.trace.clock_ns for passes in timed for each in passes), default=0)
        return Noise(self.load, steal / whole, others, spread(timed), passes, cores, pinned, attempt, clock_ns)


def spread(timed: Sequence[Sequence[Pass]]) -> float:
    """Return by how much passes (timed repetitions) of a schedule vary: the largest relative standard deviation of their times over
    schedules.

    timed: the passes of each schedule; 0.0 where none has several.
    """
    spans = [np.array([each.trace.span_ns for each in passes], np.float64) for passes in timed if len(passes) > 1]
    return max((float(span.std() / span.mean()) for span in spans if span.mean() > 0), default=0.0)


def core_seconds(stat: Path = STAT) -> tuple[float, float, float]:
    """Return seconds of the cores that this process may use since the machine started: all, those in use, those that the hypervisor took.
    They are those of all cores where the system does not tell these apart.

    stat: a file as of proc_stat(5).
    """
    own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in stat.read_text().splitlines()]
    mine = [line[1:9] for line in lines if line[0] in own]
    if len(mine) < len(own):  # a container whose cores have other numbers there
        mine = [line[1:9] for line in lines if line[0] == "cpu"]
    columns = np.array(mine, np.float64).sum(axis=0) / TICKS
    user, nice, system, _, _, irq, soft, steal = columns.tolist()
    return float(columns.sum()), user + nice + system + irq + soft, steal


def own_seconds() -> float:
    """Return the CPU seconds that this process has used, those of its children that have ended, and those of its servers of ranks
    and of their ranks that have ended.
    """
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + used_s()
