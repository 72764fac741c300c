"""Noise: what else went on while something was timed, and whether its figures can be believed."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chronoscale.harness.runs.run_folder import write_text
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.records import read_json

FILE = "noise.json"
PASSES = 7  # the fewest of which a mean can leave out the fastest and the slowest, and a spread is told
SPREAD = 0.10  # of the passes' times, relative standard deviation: as `fit.WIDE`
STEAL = 0.02  # of the cores' time, taken by the hypervisor
OTHERS = 0.10  # of the cores' time, used by other processes
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Noise:
    """`load`: processes that ran or waited in the minute before. `steal`, `others`: shares of all cores' time that the hypervisor took, and
    that other processes used. `spread`: of what was timed, the largest relative standard deviation over passes. `pinned`: cores that each
    rank had to itself, 0: not told apart. `attempt`: how often it was timed, this time included."""

    load: float
    steal: float
    others: float
    spread: float
    passes: int
    cores: int
    pinned: int = 0
    attempt: int = 1

    @property
    def why(self) -> str:
        """What keeps its figures from being believed, in words; '' for nothing."""
        found = []
        if self.spread > SPREAD:
            found.append(f"passes vary by {self.spread:.0%} (more than {SPREAD:.0%})")
        if self.steal > STEAL:
            found.append(f"the hypervisor took {self.steal:.1%} of the cores' time (more than {STEAL:.0%})")
        if self.others > OTHERS:
            found.append(f"other processes used {self.others:.0%} of it (more than {OTHERS:.0%})")
        return ", ".join(found)

    @property
    def told(self) -> str:
        """As `why`, with what was done about it."""
        return f"not to be believed: {self.why}" + f"; the quietest of {self.attempt} attempts" * (self.attempt > 1) if self.why else ""

    @property
    def level(self) -> float:
        """How noisy: the largest of its figures, each relative to what is allowed."""
        return max(self.spread / SPREAD, self.steal / STEAL, self.others / OTHERS)

    def save(self, folder: Path) -> None:
        """JSON."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1))

    @classmethod
    def of(cls, folder: Path) -> Noise | None:
        """Of what was timed into a folder; None where nothing was recorded (older runs). Raises UserError for a damaged record."""
        return read_json(folder / FILE, cls, "record of noise") if (folder / FILE).exists() else None


def spread(timed: Sequence[Sequence[Pass]]) -> float:
    """The largest relative standard deviation of passes, of those of which there are several."""
    spans = [np.array([one.trace.span_ns for one in passes], np.float64) for passes in timed if len(passes) > 1]
    return max((float(found.std() / found.mean()) for found in spans if found.mean() > 0), default=0.0)


class Watch:
    """From its making on: the cores' time, and who used it. Children count when they have ended."""

    def __init__(self) -> None:
        self.load, self._cores, self._own = os.getloadavg()[0], _cores(), _own()

    def noise(self, timed: Sequence[Sequence[Pass]], pinned: int = 0, attempt: int = 1) -> Noise:
        """What went on until now beside passes that were `timed`."""
        (total, busy, steal), own = (now - before for now, before in zip(_cores(), self._cores, strict=True)), _own() - self._own
        whole = max(total, 1 / TICKS)
        passes, cores = min((len(passes) for passes in timed), default=0), len(os.sched_getaffinity(0))
        return Noise(self.load, steal / whole, max(busy - own, 0.0) / whole, spread(timed), passes, cores, pinned, attempt)


def _cores() -> tuple[float, float, float]:
    """Seconds of all cores since the machine started: all, those in use, those that the hypervisor took (proc_stat(5))."""
    found = [int(ticks) / TICKS for ticks in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _, _, irq, soft, steal = found
    return sum(found), user + nice + system + irq + soft, steal


def _own() -> float:
    """Seconds that this process has used, and those of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
