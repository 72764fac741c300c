"""Borrowed: costs fitted on one device, taken for another."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Every duration is `extrapolated`, whatever range it lies in."""

    costs: FittedCosts
    device: str  # that they are taken for

    @property
    def name(self) -> str:
        return f"{self.costs.name}, extrapolated to {self.device}"

    @property
    def launch_ns(self) -> int:
        """Of the device that was profiled."""
        return self.costs.launch_ns

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """As the costs themselves. Raises UserError as they do."""
        return self.costs.predict(schedule, rows)[0], Source.EXTRAPOLATED


def same_device(name: str, other: str) -> bool:
    """Whether two names mean one model: all words of one are in the other ("NVIDIA A100 40GB", "NVIDIA A100-SXM4-40GB")."""
    words, others = (set(re.findall(r"[a-z0-9]+", text.lower())) for text in (name, other))
    return words <= others or others <= words
