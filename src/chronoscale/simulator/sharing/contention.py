"""Contention: the shares that rows take of resources that rows of other streams and ranks want, too.

Resources are the memory bandwidth and the SMs of each rank's device (`CostModel.occupies`; of collectives `device_shares`), or a CPU rank's
cores (`Device.cores`), of which a row takes one, unless it waits for a network or a disk; and the links of the cluster (`Traffic`). A
row takes what its work needs each second when uncontended; one that others slow down takes less of everything. Demands are compared in the
unit "devices": a kernel's is the larger of its two shares, if others want it too; that of bytes on links is their rate on the fullest one,
as a share of the memory's bandwidth. So a collective's is mostly far below a kernel's: kernels beside it are slowed, and it is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.network.collective_times import TimedCollectives
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.collective_kernels import device_shares
from chronoscale.simulator.sharing.shares import Shares, oversubscribed
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

OF_A_GPU = ("GPU {} memory", "GPU {} SMs")  # resources
Entries = tuple[Ints, Int32, Floats]  # rows, resources, shares


def contended_shares(
    schedule: Schedule, cluster: Cluster, costs: CostModel, ns: Ints, traffic: LinkTraffic, timed: TimedCollectives | None
) -> Shares | None:
    """Return what shares of memory bandwidth, SMs and links each task of a simulated schedule takes; None where none can slow another down.

    ns: what tasks take alone, int64 [n]. traffic: bytes on links. timed: the collectives, None where no other row runs beside one.
    Resources: memory and SMs of each rank's device, then the links.
    """
    streams = streams_of(schedule, cluster.device)
    taken = [np.zeros(len(schedule)) for _ in OF_A_GPU]
    _take_for_work(taken, schedule, costs, ns, cluster.device)
    owner = np.arange(len(schedule))
    if timed is not None and len(timed.collectives):
        row = timed.collectives.row
        owner[row] = np.repeat(timed.collectives.first(), timed.collectives.size)
        for column, share in zip(taken, device_shares(timed, cluster), strict=True):
            column[row] = share
    device_entries, demand = _device_entries(taken, schedule, owner, streams, len(cluster.device.streams))
    parts = [*device_entries, _link_entries(traffic, cluster.device, ns, streams, schedule.ranks, demand)]
    row, resource, share = (np.concatenate([part[i] for part in parts]) for i in range(3))
    delay = np.zeros(len(schedule), np.int64)
    delay[traffic.traffic.row] = traffic.traffic.latency_ns
    of_each = ("rank {} memory", "rank {} cores") if cluster.device.cores else OF_A_GPU
    names = tuple(name.format(rank) for name in of_each for rank in range(schedule.ranks))
    return Shares.by_row(row, resource, share, delay, np.where(demand > 0, demand, 1.0), (*names, *traffic.links.names))


def _link_entries(link_traffic: LinkTraffic, device: Device, ns: Ints, streams: Int32, ranks: int, demand: Floats) -> Entries:
    """Return entries of rows that cross links, and fill in what they demand: `demand`, float64 [n]."""
    links, traffic = link_traffic
    place = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr))
    used = _used_by_several(streams[traffic.row[place]], traffic.link, links)[traffic.link]
    demands = demand[traffic.row] > 0
    demands[place[used]] = True
    entries = np.flatnonzero(demands[place])  # all entries of rows that ask for anything: one on its way alone need not be looked at
    if not len(entries):
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
    place, used = place[entries], used[entries]
    link = traffic.link[entries]
    row = traffic.row[place]
    rate = traffic.bytes[entries] / (np.maximum(ns[row] - traffic.latency_ns[place], 1) / 1e9)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    demand[row[first]] = np.maximum.reduceat(rate, first) / device.memory_bandwidth
    share = rate / links.bandwidth[link]
    contended = np.flatnonzero(used & (share > 0))
    contended = contended[oversubscribed(streams[row[contended]], link[contended], share[contended], len(links))]
    return row[contended], link[contended] + np.int32(len(OF_A_GPU) * ranks), share[contended]


def _used_by_several(stream: Int32, link: Int32, links: LinkGraph) -> NDArray[np.bool_]:
    """Return the links that more than one FIFO uses, bool [links]: what one FIFO does, it does in turn. A host's memory of no stated
    bandwidth is none.
    """
    least, most = np.full(len(links), np.iinfo(np.int32).max, np.int32), np.full(len(links), -1, np.int32)
    np.minimum.at(least, link, stream)
    np.maximum.at(most, link, stream)
    return np.asarray((most > least) & np.isfinite(links.bandwidth), np.bool_)


def _take_for_work(taken: list[Floats], schedule: Schedule, costs: CostModel, ns: Ints, device: Device) -> None:
    """Put in what rows that are no collectives take of devices' memories and SMs, float64 [n] each."""
    for code in np.unique(schedule.op):
        if Op(code) not in COLLECTIVES:
            rows = schedule.tasks(Op(code))
            for column, share in zip(taken, _occupied(schedule, costs, ns, rows, device), strict=True):
                column[rows] = share


def _device_entries(taken: list[Floats], schedule: Schedule, owner: Ints, streams: Int32, lanes: int) -> tuple[list[Entries], Floats]:
    """Return entries of devices' memories and SMs, and what rows demand of those, float64 [n].

    taken: of each resource, what rows take, float64 [n]. owner: the row at which entries stand, a collective's first, int64 [n].
    """
    parts, demand = [], np.zeros(len(schedule))
    for which, share in enumerate(taken):
        if (scarce := _ranks_short_of(share, schedule.ranks, streams, lanes)).any():
            rows = np.flatnonzero(scarce[schedule.rank] & (share > 0))
            np.maximum.at(demand, owner[rows], share[rows])
            parts.append((owner[rows], schedule.rank[rows] + np.int32(which * schedule.ranks), share[rows]))
    return parts, demand


def _occupied(schedule: Schedule, costs: CostModel, ns: Ints, rows: Ints, device: Device) -> tuple[Floats, Floats]:
    """Return the shares of memory and of SMs, or cores, that rows of one kind take alone, float64 [rows] each."""
    if device.cores:
        waits = schedule.op[rows] == Op.FETCH
        return np.zeros(len(rows)), np.where(waits, 0.0, min(1.0, 1.0 / device.cores))
    return costs.occupies(schedule, rows, ns[rows])


def _ranks_short_of(share: Floats, ranks: int, streams: Int32, lanes: int) -> NDArray[np.bool_]:
    """Return the ranks whose streams together may ask for more than there is, bool [ranks]."""
    most = np.zeros(ranks * lanes)
    np.maximum.at(most, streams, share)
    more: NDArray[np.bool_] = most.reshape(ranks, lanes).sum(axis=1) > 1
    return more
