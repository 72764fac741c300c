"""Uncertainty of the time that rows take, as a user states it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats

Fitted = Literal["fitted"]
FEW = 1e-9  # shares of classes may add up to this much more than 1


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Slow GPUs or machines of a simulation: `count` of them, others in every draw, take `factor` times as long.

    of: 'gpu' or 'node'. A GPU does for what it computes; the ranks of a node for all that they do, copies, launches and work of the host
    among it. All straggle where there are no more than `count`.
    """

    count: int = 1
    of: Literal["gpu", "node"] = "gpu"
    factor: float = 1.5

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"stragglers: count: expected at least 1, got {self.count}")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise UserError(f"stragglers: factor: expected a finite number of at least 1, got {self.factor}")

    def __str__(self) -> str:
        return f"{self.count} {self.of}{'s' * (self.count > 1)} {self.factor:g} times as slow"


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Class of simulated devices: a `share` of the ranks, rounded to whole ones, computes at `speed` times the cluster's device's speed."""

    share: float
    speed: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"classes: share: expected more than 0 and at most 1, got {self.share}")
        if not (math.isfinite(self.speed) and self.speed > 0):
            raise UserError(f"classes: speed: expected a finite number above 0, got {self.speed}")

    def __str__(self) -> str:
        return f"{self.share:.0%} of the GPUs at {self.speed:g} of the speed"


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Spread of simulated durations around what costs predict, as an experiment file states it.

    jitter: relative standard deviation of a row's (task's) time and of what launching it takes its host, each row for itself and each
    collective as one; sway: of all that a rank does in an iteration, beside that. "fitted": as repeats showed it, of what the costs were
    fitted to, of each curve and of no collective. Both are log-normal with mean 1: times are positive, and sums of many rows stay what they
    are. classes: the first has the first ranks, and so on; ranks without a class have the cluster's device.
    """

    jitter: float | Fitted = 0.0
    sway: float | Fitted = 0.0
    stragglers: Stragglers | None = None
    classes: tuple[DeviceClass, ...] = ()

    def __post_init__(self) -> None:
        for name, spread in self._spreads:
            if spread != "fitted" and not (math.isfinite(spread) and spread >= 0):
                raise UserError(f"{name}: expected a relative spread of at least 0, got {spread}")
        if (total := sum(device_class.share for device_class in self.classes)) > 1 + FEW:
            raise UserError(f"classes: their shares add up to {total:g}, more than 1")

    @property
    def _spreads(self) -> tuple[tuple[str, float | Fitted], ...]:
        return ("jitter", self.jitter), ("sway", self.sway)

    @property
    def random(self) -> bool:
        """Return whether simulations of one schedule differ from draw to draw."""
        return bool(self.jitter or self.sway or self.stragglers)

    def speeds(self, ranks: int) -> Floats:
        """Return how fast each simulated rank computes, float64 [ranks], 1: as the cluster's device.

        A class ends at the rank nearest to its share.
        """
        speeds, first = np.ones(ranks), 0.0
        for device_class in self.classes:
            speeds[round(first * ranks) : round((first + device_class.share) * ranks)] = device_class.speed
            first += device_class.share
        return speeds

    def __str__(self) -> str:
        spreads = [(name, spread if spread == "fitted" else f"{spread:.3g}" if spread else "") for name, spread in self._spreads]
        parts = [f"{name} {spread}" for name, spread in spreads if spread]
        parts += [] if self.stragglers is None else [str(self.stragglers)]
        return ", ".join([*parts, *map(str, self.classes)])


CERTAIN = Uncertainty()
