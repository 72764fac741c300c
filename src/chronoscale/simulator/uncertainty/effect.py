"""Effect of one assumption alone on a simulated epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one assumption on a simulated epoch: its seconds with the assumption at either end of its range.

    low, high, source: the ends in words, and where the range is from. epoch_s: with none changed, and without jitter.
    """

    assumption: str
    low: str
    high: str
    source: str
    epoch_s: float
    low_s: float
    high_s: float

    @property
    def size(self) -> float:
        """Return the larger of the two changes of the epoch, relative to it."""
        return max(abs(self.low_s - self.epoch_s), abs(self.high_s - self.epoch_s)) / self.epoch_s if self.epoch_s else 0.0
