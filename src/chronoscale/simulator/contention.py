"""Contention: what rows take of resources that rows of other streams and ranks want, too.

Of each rank's device the bandwidth of its memory and its SMs (`CostModel.occupies`), and the links of the cluster (`Traffic`). A row takes
what its work alone needs each second: one that others slow down takes less of everything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.shares import Shares, short
from chronoscale.simulator.timeline import streams_of
from chronoscale.simulator.traffic import Crossed
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

OF_A_DEVICE = ("memory", "SMs")


def contention(schedule: Schedule, cluster: Cluster, costs: CostModel, ns: Ints, crossed: Crossed) -> Shares | None:
    """Of rows that take `ns` alone, int64 [n]; None where none can be in another's way.

    Resources: memory and SMs of each rank's device, then the links.
    """
    streams = streams_of(schedule, cluster.device)
    parts = [*_computing(schedule, costs, streams, len(cluster.device.streams)), _crossing(crossed, ns, streams, schedule.ranks)]
    row, resource, share = (np.concatenate([part[i] for part in parts]) for i in range(3))
    delay = np.zeros(len(schedule), np.int64)
    delay[crossed.traffic.row] = crossed.traffic.latency_ns
    names = tuple(f"GPU {rank} {what}" for what in OF_A_DEVICE for rank in range(schedule.ranks))
    return Shares.by_row(row, resource, share, delay, (*names, *crossed.links.names))


def _crossing(crossed: Crossed, ns: Ints, streams: Int32, ranks: int) -> tuple[Ints, Int32, Floats]:
    links, traffic = crossed
    place = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr))
    row = traffic.row[place]
    moving_s = np.maximum(ns[row] - traffic.latency_ns[place], 1) / 1e9
    share = traffic.bytes / moving_s / links.bandwidth[traffic.link]
    used = np.flatnonzero(share > 0)  # a host's memory without a stated bandwidth is no limit
    used = used[short(streams[row[used]], traffic.link[used], share[used], len(links))]
    return row[used], traffic.link[used] + np.int32(len(OF_A_DEVICE) * ranks), share[used]


def _computing(schedule: Schedule, costs: CostModel, streams: Int32, lanes: int) -> list[tuple[Ints, Int32, Floats]]:
    found = [np.zeros(len(schedule)) for _ in OF_A_DEVICE]
    for code in np.unique(schedule.op):
        if Op(code) not in COLLECTIVES:
            rows = schedule.tasks(Op(code))
            for column, share in zip(found, costs.occupies(schedule, rows), strict=True):
                column[rows] = share
    asked = [np.flatnonzero(_short(share, schedule, streams, lanes)) for share in found]
    return [(rows, schedule.rank[rows] + np.int32(which * schedule.ranks), found[which][rows]) for which, rows in enumerate(asked)]


def _short(share: Floats, schedule: Schedule, streams: Int32, lanes: int) -> NDArray[np.bool_]:
    """Rows that ask for some of what their rank's streams together may ask for more of than there is."""
    most = np.zeros(schedule.ranks * lanes)
    np.maximum.at(most, streams, share)
    wanted = most.reshape(schedule.ranks, lanes).sum(axis=1) > 1
    return np.asarray((share > 0) & wanted[schedule.rank])
