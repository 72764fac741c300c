"""CostRequests: the curves and ranges that planners and replays ask of costs, so that a profile measures these and nothing else."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from chronoscale.strategies.costing.curves import RANGED, Curve, curves
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source

Ranges = dict[str, tuple[int, int]]  # of each descriptor, the least and the most


class CostsNeeded(Exception):
    """The signal that a planner asked how long a row takes, and nothing is measured yet."""


class UnmeasuredCosts:
    """A cost model before anything is measured: a planner that asks it for anything stops with CostsNeeded."""

    name = "nothing measured yet"

    @property
    def launch_ns(self) -> int:
        self._asked()

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        self._asked()

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        self._asked()

    def _asked(self) -> NoReturn:
        """Stop the planner. Raises CostsNeeded."""
        raise CostsNeeded


class CostRequests:
    """A cost model that records what it is asked for: for every curve the ranges of its rows' descriptors, collectives left out."""

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self.ranges: dict[Curve, Ranges] = {}

    @property
    def name(self) -> str:
        return self.costs.name

    @property
    def launch_ns(self) -> int:
        return self.costs.launch_ns

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        self.note(schedule, rows)
        return self.costs.predict(schedule, rows)

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        return self.costs.occupies(schedule, rows, ns)

    def note(self, schedule: Schedule, rows: Ints | None = None) -> None:
        """Record rows of a schedule (default: all) as if costs had been asked for them."""
        for curve, ranges in descriptor_ranges(schedule, rows).items():
            recorded = self.ranges.setdefault(curve, dict(ranges))
            for name, (low, high) in ranges.items():
                recorded[name] = min(recorded[name][0], low), max(recorded[name][1], high)


def descriptor_ranges(schedule: Schedule, rows: Ints | None = None) -> dict[Curve, Ranges]:
    """Return the ranges of descriptors for every curve among some rows of a schedule (default: all); collectives are left out."""
    rows = np.arange(len(schedule)) if rows is None else rows
    ranges = {}
    for curve, own in curves(schedule, rows):
        if Op[curve.op] not in COLLECTIVES:
            columns = {name: getattr(schedule, name)[rows[own]] for name in RANGED}
            ranges[curve] = {name: (int(column.min()), int(column.max())) for name, column in columns.items()}
    return ranges
