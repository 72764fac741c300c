"""Contention: the shares that rows take of resources that rows of other streams and ranks want, too.

Resources are the memory bandwidth and the SMs of each rank's device (`CostModel.occupies`), and the links of the cluster (`Traffic`). A row
takes what its work needs each second when uncontended; one that others slow down takes less of everything. Demands are compared in the unit
"devices": a kernel's is the larger of its two shares, if others want it too; that of bytes on links is their rate on the fullest one, as a
share of the memory's bandwidth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.shares import Shares, oversubscribed
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

OF_A_DEVICE = ("memory", "SMs")
Entries = tuple[Ints, Int32, Floats]  # rows, resources, shares


def contended_shares(schedule: Schedule, cluster: Cluster, costs: CostModel, ns: Ints, crossed: LinkTraffic) -> Shares | None:
    """Return what rows take of shared resources; None where none can slow another down.

    ns: uncontended durations, int64 [n]. Resources: memory and SMs of each rank's device, then the links.
    """
    streams = streams_of(schedule, cluster.device)
    computing, demand = _computing(schedule, costs, ns, streams, len(cluster.device.streams))
    parts = [*computing, _crossing(crossed, cluster.device, ns, streams, schedule.ranks, demand)]
    row, resource, share = (np.concatenate([part[i] for part in parts]) for i in range(3))
    delay = np.zeros(len(schedule), np.int64)
    delay[crossed.traffic.row] = crossed.traffic.latency_ns
    names = tuple(f"GPU {rank} {what}" for what in OF_A_DEVICE for rank in range(schedule.ranks))
    return Shares.by_row(row, resource, share, delay, np.where(demand > 0, demand, 1.0), (*names, *crossed.links.names))


def _crossing(crossed: LinkTraffic, device: Device, ns: Ints, streams: Int32, ranks: int, demand: Floats) -> Entries:
    """Return entries of rows that cross links, and fill in what they demand: `demand`, float64 [n]."""
    links, traffic = crossed
    place = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr))
    used = _several(streams[traffic.row[place]], traffic.link, links)[traffic.link]
    asking = demand[traffic.row] > 0
    asking[place[used]] = True
    kept = np.flatnonzero(asking[place])  # all entries of rows that ask for anything: one on its way alone need not be looked at
    if not len(kept):
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
    place, link, used = place[kept], traffic.link[kept], used[kept]
    row = traffic.row[place]
    rate = traffic.bytes[kept] / (np.maximum(ns[row] - traffic.latency_ns[place], 1) / 1e9)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    demand[row[first]] = np.maximum.reduceat(rate, first) / device.memory_bandwidth
    share = rate / links.bandwidth[link]
    found = np.flatnonzero(used & (share > 0))
    found = found[oversubscribed(streams[row[found]], link[found], share[found], len(links))]
    return row[found], link[found] + np.int32(len(OF_A_DEVICE) * ranks), share[found]


def _several(stream: Int32, link: Int32, links: LinkGraph) -> NDArray[np.bool_]:
    """Return the links that more than one FIFO uses, bool [links]: what one FIFO does, it does in turn. A host's memory of no stated
    bandwidth is none.
    """
    least, most = np.full(len(links), np.iinfo(np.int32).max, np.int32), np.full(len(links), -1, np.int32)
    np.minimum.at(least, link, stream)
    np.maximum.at(most, link, stream)
    return np.asarray((most > least) & np.isfinite(links.bandwidth), np.bool_)


def _computing(schedule: Schedule, costs: CostModel, ns: Ints, streams: Int32, lanes: int) -> tuple[list[Entries], Floats]:
    """Return entries of devices' memories and SMs, and what rows demand of those, float64 [n]."""
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
    """Return the ranks whose streams together may ask for more than there is, bool [ranks]."""
    most = np.zeros(ranks * lanes)
    np.maximum.at(most, streams, share)
    found: NDArray[np.bool_] = most.reshape(ranks, lanes).sum(axis=1) > 1
    return found
