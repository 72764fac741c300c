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
    """Signal that a planner asked how long a row takes before anything was measured: profile first, then plan."""


class UnmeasuredCosts:
    """Stand-in for a cost model before anything is measured: a planner that needs no costs plans with it, one that does stops with
    CostsNeeded."""

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
    """Cost model that passes on another one's answers and records what planners and replays ask, so that a profile measures just that.

    `ranges`: for every cost curve (operation and width), the smallest and largest value of each descriptor that was asked for.
    """

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
        """Record all rows of a schedule, or those given (int64 row numbers), as if their costs had been asked for; collectives are left
        out."""
        for curve, ranges in descriptor_ranges(schedule, rows).items():
            recorded = self.ranges.setdefault(curve, dict(ranges))
            for name, (low, high) in ranges.items():
                recorded[name] = min(recorded[name][0], low), max(recorded[name][1], high)


def descriptor_ranges(schedule: Schedule, rows: Ints | None = None) -> dict[Curve, Ranges]:
    """Return what a profile has to cover for a schedule, or for some `rows` of it: for every cost curve (operation and width) the smallest
    and largest value of each size ("nodes", "edges", "rows", "bytes", "flops"). Collectives are left out."""
    rows = np.arange(len(schedule)) if rows is None else rows
    ranges = {}
    for curve, own in curves(schedule, rows):
        if Op[curve.op] not in COLLECTIVES:
            columns = {name: getattr(schedule, name)[rows[own]] for name in RANGED}
            ranges[curve] = {name: (int(column.min()), int(column.max())) for name, column in columns.items()}
    return ranges
