"""Alone: what the rows of a schedule take on a cluster where each has it to itself, ready to be replayed, as often as one likes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import UInt8
from chronoscale.simulator import network
from chronoscale.simulator.launches import Launches
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, durations
from chronoscale.strategies.schedule import Ints, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """ns int64 [n], a collective's in each of its rows, and where they come from. launches: None where nothing is launched."""

    ns: Ints
    source: UInt8
    launches: Launches | None
    launch_ns: int

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster, costs: CostModel) -> Alone:
        """Raises UserError when the cluster has too few devices, and when `costs` does not know a row."""
        cluster.link(schedule.ranks)  # refuses too few devices
        ns, source = durations(costs, schedule)
        joined, joined_ns = network.times(schedule, cluster)
        ns[joined], source[joined] = joined_ns, network.origin(cluster)
        return cls(ns, source, Launches.of(schedule, ns, costs.launch_ns), costs.launch_ns)

    def launched(self, schedule: Schedule, ns: Ints) -> Launches | None:
        """The launches of `schedule`, whose rows now take `ns` (int64 [n])."""
        return None if self.launches is None else self.launches.moved(schedule, self.ns, ns, self.launch_ns)


def firsts(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that join collectives, and the first row of each one's collective; int64 [rows] both."""
    rows = np.flatnonzero(schedule.collective >= 0)
    _, first, index = np.unique(schedule.collective[rows], return_index=True, return_inverse=True)
    return rows, rows[first][index]
