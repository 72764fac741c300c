"""Noise: what else went on while something was timed, and whether its figures can be believed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.harness.runs.run_folder import write_text
from chronoscale.records import read_json

FILE = "noise.json"
PASSES = 7  # the fewest of which a mean can leave out the fastest and the slowest, and a spread is told
SPREAD = 0.10  # of the passes' times, relative standard deviation: as `fit.WIDE`
STEAL = 0.02  # of the cores' time, taken by the hypervisor
OTHERS = 0.10  # of the cores' time, used by other processes


@dataclass(frozen=True, slots=True)
class Noise:
    """Record, in a run's folder, of the machine's load while something was timed, and of how far its times can be believed.

    load: processes that ran or waited in the minute before. steal, others: shares of all cores' time that the hypervisor took, and that
    other processes used. spread: the largest relative standard deviation of a schedule's times over its passes (timed repetitions). passes:
    the fewest of a schedule. cores: of the machine; pinned: that each rank had to itself, 0: unknown. attempt: how often all was timed,
    this time included. clock_ns: by how much clocks of several machines may differ (`Trace.clock_ns`). Of several machines, cores and what
    used them are the first one's.
    """

    load: float
    steal: float
    others: float
    spread: float
    passes: int
    cores: int
    pinned: int = 0
    attempt: int = 1
    clock_ns: int = 0

    @property
    def why(self) -> str:
        """Reasons why the times are unreliable, in words; '' for none."""
        reasons = []
        if self.spread > SPREAD:
            reasons.append(f"passes vary by {self.spread:.0%} (more than {SPREAD:.0%})")
        if self.steal > STEAL:
            reasons.append(f"the hypervisor took {self.steal:.1%} of the cores' time (more than {STEAL:.0%})")
        if self.others > OTHERS:
            reasons.append(f"other processes used {self.others:.0%} of it (more than {OTHERS:.0%})")
        return ", ".join(reasons)

    @property
    def sentence(self) -> str:
        """Warning for people that the times are unreliable, why, and how often they were measured; '' where they are reliable."""
        return f"not to be believed: {self.why}" + f"; the quietest of {self.attempt} attempts" * (self.attempt > 1) if self.why else ""

    @property
    def level(self) -> float:
        """Level of noise, to compare attempts by: the largest of spread, steal and others, each divided by its limit; above 1, times are
        unreliable.
        """
        return max(self.spread / SPREAD, self.steal / STEAL, self.others / OTHERS)

    def save(self, folder: Path) -> None:
        """Write the record as noise.json into the folder of what was timed."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1))

    @classmethod
    def load_from(cls, folder: Path) -> Noise | None:
        """Read the record in a folder; None where nothing was recorded (older runs). Raises UserError for a damaged record."""
        return read_json(folder / FILE, cls, "record of noise") if (folder / FILE).exists() else None
