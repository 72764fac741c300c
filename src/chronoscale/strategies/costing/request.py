"""Asked: what planners and replays ask of costs, so that a profile measures that, or nothing."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from chronoscale.strategies.costing.curves import RANGED, Curve, curves
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source

Ranges = dict[str, tuple[int, int]]  # of each descriptor, the least and the most


class CostsNeeded(Exception):
    """A planner asked how long a row takes, and nobody knows yet."""


class UnmeasuredCosts:
    """Costs before anything is measured. A plan that is made with them needs none; one that asks stops with CostsNeeded."""

    name = "nothing measured yet"

    @property
    def launch_ns(self) -> int:
        """As in `CostModel`."""
        self._asked()

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """As in `CostModel`."""
        self._asked()

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """As in `CostModel`."""
        self._asked()

    def _asked(self) -> NoReturn:
        raise CostsNeeded


class CostRequests:
    """Costs that remember what they were asked for: of each curve the ranges of its rows' descriptors. Collectives are the network's."""

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self.ranges: dict[Curve, Ranges] = {}

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
        self.note(schedule, rows)
        return self.costs.predict(schedule, rows)

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """As in `CostModel`."""
        return self.costs.occupies(schedule, rows, ns)

    def note(self, schedule: Schedule, rows: Ints | None = None) -> None:
        """Rows of a schedule, by default all, as if they had been asked for."""
        for curve, ranges in descriptor_ranges(schedule, rows).items():
            known = self.ranges.setdefault(curve, dict(ranges))
            for name, (low, high) in ranges.items():
                known[name] = min(known[name][0], low), max(known[name][1], high)


def descriptor_ranges(schedule: Schedule, rows: Ints | None = None) -> dict[Curve, Ranges]:
    """Of every curve among some rows of a schedule, by default all, the ranges of its descriptors; collectives left out."""
    rows = np.arange(len(schedule)) if rows is None else rows
    found = {}
    for curve, own in curves(schedule, rows):
        if Op[curve.op] not in COLLECTIVES:
            columns = {name: getattr(schedule, name)[rows[own]] for name in RANGED}
            found[curve] = {name: (int(column.min()), int(column.max())) for name, column in columns.items()}
    return found
