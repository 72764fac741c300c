"""Uncontended rows: what the rows of a schedule take where each has the cluster to itself, and what they share: all that a replay needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import UInt8
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.contention import contended_shares
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, Floats, durations
from chronoscale.strategies.schedule import Ints, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class UncontendedRows:
    """Durations of a schedule's tasks (rows), each with the simulated cluster to itself, and the resources that they share.

    That is all a replay needs. ns: int64 [n], a collective's in each of its rows; source: where each is from. launch_ns: what a kernel
    takes the host. crossed: bytes on links, None where the cluster has no contention; shares: None where no row can slow another down.
    """

    ns: Ints
    source: UInt8
    launch_ns: int
    crossed: LinkTraffic | None
    shares: Shares | None

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster, costs: CostModel) -> UncontendedRows:
        """Work out what each task of a schedule takes alone on a simulated cluster, and what it shares with others.

        costs: predicts the tasks that are no collectives. Raises UserError when the cluster has too few devices, and when `costs` does not
        know a row.
        """
        cluster.link(schedule.ranks)  # refuses too few devices
        ns, source = durations(costs, schedule)
        timed = collective_times.TimedCollectives.of(schedule, cluster)
        rows, collective_ns = timed.times()
        ns[rows], source[rows] = collective_ns, collective_times.origin(cluster)
        traffic = LinkTraffic.of(schedule, cluster, timed) if cluster.contention else None
        shares = None if traffic is None else contended_shares(schedule, cluster, costs, ns, traffic, timed)
        return cls(ns, source, costs.launch_ns, traffic, shares)

    def launches(self, schedule: Schedule, ns: Ints, slower: Floats | None = None) -> Launches | None:
        """Return the kernel launches for a replay of rows that take `ns`, int64 [n]; None where nothing is launched.

        slower: how many times as long the host takes for those of each row, float64 [n].
        """
        each = self.launch_ns if slower is None else np.rint(self.launch_ns * slower).astype(np.int64)
        return Launches.of(schedule, ns, each)


def first_rows(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of a schedule that join collectives, and the first row of each one's collective; int64 [rows] both.

    For the simulator, where a collective has one duration.
    """
    rows = np.flatnonzero(schedule.collective >= 0)
    _, first, index = np.unique(schedule.collective[rows], return_index=True, return_inverse=True)
    return rows, rows[first][index]
