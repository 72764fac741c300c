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
from chronoscale.simulator.shares import Shares
from chronoscale.simulator.timeline import streams_of
from chronoscale.simulator.traffic import Crossed
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

OF_A_DEVICE = ("memory", "SMs")
Entries = tuple[Ints, Ints, Floats, Floats]  # rows, resources, shares, and what the rows demand


def contention(schedule: Schedule, cluster: Cluster, costs: CostModel, ns: Ints, crossed: Crossed) -> Shares | None:
    """Of rows that take `ns` alone, int64 [n]; None where none can be in another's way.

    Resources: memory and SMs of each rank's device, then the links.
    """
    streams = streams_of(schedule, cluster.device)
    parts = [_crossing(crossed, cluster.device, ns, schedule.ranks), *_computing(schedule, costs, streams, len(cluster.device.streams))]
    row, resource, share, demanded = (np.concatenate([part[i] for part in parts]) for i in range(4))
    demand = np.zeros(len(schedule))
    np.maximum.at(demand, row, demanded)
    delay = np.zeros(len(schedule), np.int64)
    delay[crossed.traffic.row] = crossed.traffic.latency_ns
    names = tuple(f"GPU {rank} {what}" for what in OF_A_DEVICE for rank in range(schedule.ranks))
    return Shares.of(
        row, resource.astype(np.int32), share, delay, np.where(demand > 0, demand, 1.0), streams, (*names, *crossed.links.names)
    )


def _crossing(crossed: Crossed, device: Device, ns: Ints, ranks: int) -> Entries:
    links, traffic = crossed
    place = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr))
    row = traffic.row[place]
    moving_s = np.maximum(ns[row] - traffic.latency_ns[place], 1) / 1e9
    rate = traffic.bytes / moving_s
    share = rate / links.bandwidth[traffic.link]
    used = share > 0  # a host's memory without a stated bandwidth is no limit
    return row[used], len(OF_A_DEVICE) * ranks + traffic.link[used].astype(np.int64), share[used], rate[used] / device.memory_bandwidth


def _computing(schedule: Schedule, costs: CostModel, streams: Int32, lanes: int) -> list[Entries]:
    found = [np.zeros(len(schedule)) for _ in OF_A_DEVICE]
    for code in np.unique(schedule.op):
        if Op(code) not in COLLECTIVES:
            rows = schedule.tasks(Op(code))
            for column, share in zip(found, costs.occupies(schedule, rows), strict=True):
                column[rows] = share
    short = [np.where(_short(share, schedule, streams, lanes), share, 0.0) for share in found]
    most = np.maximum(*short)
    asked = [np.flatnonzero(share) for share in short]
    return [
        (rows, which * schedule.ranks + schedule.rank[rows].astype(np.int64), short[which][rows], most[rows])
        for which, rows in enumerate(asked)
    ]


def _short(share: Floats, schedule: Schedule, streams: Int32, lanes: int) -> NDArray[np.bool_]:
    """Rows that ask for some of what their rank's streams together may ask for more of than there is."""
    most = np.zeros(schedule.ranks * lanes)
    np.maximum.at(most, streams, share)
    short = most.reshape(schedule.ranks, lanes).sum(axis=1) > 1
    return np.asarray((share > 0) & short[schedule.rank])
