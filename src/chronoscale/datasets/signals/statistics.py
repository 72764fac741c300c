"""Statistics of a signal: the counts that planning needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class SignalStatistics:
    """Counts of a signal, all that planners need to know of the dataset: `steps` readings of `channels` values at `sensors` nodes of a
    static graph of `edges` edges.

    itemsize: bytes a value. `missing`: readings that are not there. `calendar`: how many of the last channels tell the time. Raises
    UserError for counts that no signal has.
    """

    family: ClassVar[str] = "signals"
    steps: int
    sensors: int
    channels: int
    edges: int
    itemsize: int = 4
    missing: int = 0
    calendar: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.sensors, self.channels, self.itemsize) < 1 or min(self.edges, self.missing) < 0:
            raise UserError("a signal has at least one step, sensor and channel")
        if not 0 <= self.calendar < self.channels:
            raise UserError(f"a signal has at least one channel of values, got {self.calendar} of the calendar among {self.channels}")
