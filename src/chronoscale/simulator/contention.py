"""Contention: what rows take of resources that rows of other streams and ranks want, too.

Of each rank's device the bandwidth of its memory and its SMs (`CostModel.occupies`), and the links of the cluster (`Traffic`). A row takes
what its work alone needs each second: one that others slow down takes less of everything. Who demands how much is reckoned in devices: of a
kernel, the larger of its two shares, if others want it too; of what crosses links, the bytes a second on its fullest one, as a share of the
memory's bandwidth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.shares import Shares, short
from chronoscale.simulator.timeline import streams_of
from chronoscale.simulator.traffic import Crossed
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

OF_A_DEVICE = ("memory", "SMs")
Entries = tuple[Ints, Int32, Floats]  # rows, resources, shares


def contention(schedule: Schedule, cluster: Cluster, costs: CostModel, ns: Ints, crossed: Crossed) -> Shares | None:
    """Of rows that take `ns` alone, int64 [n]; None where none can be in another's way.

    Resources: memory and SMs of each rank's device, then the links.
    """
    streams = streams_of(schedule, cluster.device)
    computing, demand = _computing(schedule, costs, ns, streams, len(cluster.device.streams))
    parts = [*computing, _crossing(crossed, cluster.device, ns, streams, schedule.ranks, demand)]
    row, resource, share = (np.concatenate([part[i] for part in parts]) for i in range(3))
    delay = np.zeros(len(schedule), np.int64)
    delay[crossed.traffic.row] = crossed.traffic.latency_ns
    names = tuple(f"GPU {rank} {what}" for what in OF_A_DEVICE for rank in range(schedule.ranks))
    return Shares.by_row(row, resource, share, delay, np.where(demand > 0, demand, 1.0), (*names, *crossed.links.names))


def _crossing(crossed: Crossed, device: Device, ns: Ints, streams: Int32, ranks: int, demand: Floats) -> Entries:
    """Entries of what crosses links; `demand`, float64 [n], is filled in."""
    links, traffic = crossed
    place, there = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr)), np.diff(traffic.ptr) > 0
    row = traffic.row[place]
    rate = traffic.bytes / (np.maximum(ns[row] - traffic.latency_ns[place], 1) / 1e9)
    if there.any():
        demand[traffic.row[there]] = np.maximum.reduceat(rate, traffic.ptr[:-1][there]) / device.memory_bandwidth
    share = rate / links.bandwidth[traffic.link]
    used = np.flatnonzero(share > 0)  # a host's memory without a stated bandwidth is no limit
    used = used[short(streams[row[used]], traffic.link[used], share[used], len(links))]
    return row[used], traffic.link[used] + np.int32(len(OF_A_DEVICE) * ranks), share[used]


def _computing(schedule: Schedule, costs: CostModel, ns: Ints, streams: Int32, lanes: int) -> tuple[list[Entries], Floats]:
    """Entries of memories and of SMs, and what rows demand of those, float64 [n]."""
    found = [np.zeros(len(schedule)) for _ in OF_A_DEVICE]
    for code in np.unique(schedule.op):
        if Op(code) not in COLLECTIVES:
            rows = schedule.tasks(Op(code))
            for column, share in zip(found, costs.occupies(schedule, rows, ns[rows]), strict=True):
                column[rows] = share
    parts, demand = [], np.zeros(len(schedule))
    for which, share in enumerate(found):
        if (wanted := _wanted(share, schedule.ranks, streams, lanes)).any():
            rows = np.flatnonzero(wanted[schedule.rank] & (share > 0))
            demand[rows] = np.maximum(demand[rows], share[rows])
            parts.append((rows, schedule.rank[rows] + np.int32(which * schedule.ranks), share[rows]))
    return parts, demand


def _wanted(share: Floats, ranks: int, streams: Int32, lanes: int) -> NDArray[np.bool_]:
    """Ranks whose streams together may ask for more than there is, bool [ranks]."""
    most = np.zeros(ranks * lanes)
    np.maximum.at(most, streams, share)
    found: NDArray[np.bool_] = most.reshape(ranks, lanes).sum(axis=1) > 1
    return found
