"""Jittered: fitted costs as one epoch might draw them, so that ranks which wait for each other wait for the slower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.costs import FittedCosts, Floats
from chronoscale.strategies.curves import curves
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source


@dataclass(frozen=True)
class Jittered:
    """`costs` with their jitter drawn by `draw`: every row for itself by its curve's `spread`, and all rows of a rank and an iteration by
    `sway`. Log-normal factors of mean 1: sums stay what they are, but for what waits. The same draw predicts the same row alike."""

    costs: FittedCosts
    draw: int

    @property
    def name(self) -> str:
        """As in `CostModel`."""
        return self.costs.name

    @property
    def launch_ns(self) -> int:
        """As in `CostModel`."""
        return self.costs.launch_ns

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """As in `CostModel`."""
        ns, source = self.costs.predict(schedule, rows)
        own = np.zeros(len(rows))
        for curve, places in curves(schedule, rows):
            own[places] = self.costs.of(curve).spread
        shared = self._shared(schedule.ranks, schedule.iterations)[schedule.rank[rows], schedule.iteration[rows]]
        each = np.random.default_rng([self.draw, 1, int(schedule.op[rows[0]]) if len(rows) else 0]).standard_normal(len(schedule))[rows]
        return np.rint(ns * _factor(own, each) * shared).astype(np.int64), source

    def _shared(self, ranks: int, iterations: int) -> Floats:
        """Of a rank's iterations, float64 [ranks, iterations]."""
        return _factor(np.float64(self.costs.sway), np.random.default_rng([self.draw, 0]).standard_normal((ranks, iterations)))


def _factor(deviation: Floats | np.float64, normal: Floats) -> Floats:
    """Log-normal of mean 1 and a relative deviation, from standard normal draws."""
    level = np.sqrt(np.log1p(np.square(deviation)))
    return np.asarray(np.exp(level * normal - np.square(level) / 2), np.float64)
