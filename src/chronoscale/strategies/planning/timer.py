"""Timer: a builder that adds up time instead of rows, so that a planner estimates with the very code that plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.costs import CostModel, Floats, launch_overlap_ns
from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op


class Timer:
    """Stand-in for a Builder that adds up time instead of rows, so that a planner (REAL's) estimates group times with the very code that
    plans.

    Each of n sites is a device of its own, all lanes free at 0; kernels are launched one after another, as a rank's host does. Handles are
    ends in ns, int64 [sites]; a site without a row ends at 0 and takes no time. `busy`: sum of durations and launches, ns [sites].
    """

    def __init__(self, sites: int, costs: CostModel, kernels: Kernels) -> None:
        self._costs = costs
        self._kernels = kernels
        self._launched = np.zeros(sites, np.int64)
        self._free = {lane: np.zeros(sites, np.int64) for lane in Lane}
        self.busy = np.zeros(sites, np.int64)  # sum of durations over all lanes and of launching, ns

    def add(self, op: Op, lane: Lane, *columns: Columns, where: NDArray[np.bool_] | None = None, after: Sequence[Ints] = ()) -> Ints:
        """Run one operation on every site of the estimate: behind what its lane has done so far, and behind `after` (ends of other rows,
        ns). columns, where: as a Builder takes them. Returns the ends of its rows, int64 [sites] ns."""
        block = Builder("estimate", 1, kernels=self._kernels)
        here: Columns = {"rank": 0, "order": np.arange(len(self.busy))}
        present = block.add(op, lane, *columns, here, where=where) >= 0
        end = np.zeros(len(present), np.int64)
        if present.any():
            schedule = block.finish()
            ns, _ = self._costs.predict(schedule, np.arange(len(schedule)))
            launching = schedule.kernels * self._costs.launch_ns
            self._launched[present] += launching
            start = np.maximum.reduce([self._free[lane], *after])[present]
            end[present] = np.maximum(start, self._launched[present] - launch_overlap_ns(schedule.kernels, ns, self._costs.launch_ns)) + ns
            self._free[lane] = np.where(present, end, self._free[lane])
            self.busy[present] += ns + launching
        return end

    @property
    def span(self) -> Floats:
        """When the last lane of each site falls idle, its estimated total time, float64 [sites] ns."""
        span: Ints = np.maximum.reduce(list(self._free.values()))
        return span.astype(np.float64)
