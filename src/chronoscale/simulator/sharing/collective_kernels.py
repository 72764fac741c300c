"""Collective kernels: what collectives take of the devices whose bytes they move, beside kernels of the schedule.

A channel of NCCL is one thread block, on an SM of its own. A rank reads what it sends, and writes what it receives, in its device's memory.
Ranks on CPUs of one machine copy what they send with a core each.
"""

from __future__ import annotations

import numpy as np

from chronoscale.simulator.network.collective_times import TimedCollectives
from chronoscale.simulator.network.collectives import LAYOUTS
from chronoscale.simulator.network.nccl import constants_of
from chronoscale.simulator.network.traffic import links_are_measured
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Op


def device_shares(timed: TimedCollectives, cluster: Cluster) -> tuple[Floats, Floats]:
    """Return what shares of memory bandwidth and of SMs, or cores, the r rows of collectives take of their rank's device, while their bytes
    are under way; float64 [r] each, 0 to 1.

    One rank alone takes nothing, and so do links of GPUs that were fitted: those measurements contain it. No SMs are counted where the
    device's number is unknown.
    """
    (collectives, costs), device = timed, cluster.device
    several, none = np.repeat(collectives.size > 1, collectives.size), np.zeros(len(collectives.row))
    if device.cores:
        return none, np.where(several, min(1.0, device.message_cores / device.cores), 0.0)
    if links_are_measured(cluster):
        return none, none
    seconds = np.repeat(np.maximum(costs.seconds - costs.latency_s, 1e-9), collectives.size)
    memory = np.minimum(memory_bytes(timed) / (seconds * device.memory_bandwidth * device.memory_efficiency), 1.0)
    channels = constants_of(cluster).channels
    taken = np.clip(_payload(timed) // channels.bytes, 1, channels.most)
    sms = np.minimum(taken / device.sms, 1.0) if device.sms else np.zeros(len(collectives))
    return memory * several, np.repeat(sms, collectives.size) * several


def memory_bytes(timed: TimedCollectives) -> Floats:
    """Return what each row of collectives reads and writes in its device's memory, bytes, float64 [r]: what it sends and what it receives.

    Of n bytes a row: all-reduce, 2 (P-1)/P n each way by a ring or a tree, n each way where NVSwitch adds up; all-gather by a ring, all but
    the next rank's part, and all but its own; all-to-all, n, and of each other rank an equal part of its n; a message once.
    """
    collectives, costs = timed
    if not len(collectives):
        return np.zeros(0)
    op, switched = (np.repeat(each, collectives.size) for each in (collectives.op, costs.pattern == LAYOUTS.index("nvls")))
    size, moved = np.repeat(collectives.size, collectives.size).astype(np.float64), collectives.moved.astype(np.float64)
    total = np.repeat(np.add.reduceat(moved, collectives.begin), collectives.size)
    following = np.arange(1, len(moved) + 1)
    following[collectives.begin + collectives.size - 1] = collectives.begin
    kinds = [(op == Op.ALLREDUCE) & switched, op == Op.ALLREDUCE, op == Op.ALLGATHER, op == Op.ALLTOALL]
    gathered, exchanged = 2 * total - moved - moved[following], moved + (total - moved) / np.maximum(size - 1, 1)
    ways = [2 * moved, 4 * (size - 1) / size * moved, gathered, exchanged]
    return np.asarray(np.select(kinds, ways, np.repeat(np.maximum.reduceat(moved, collectives.begin), collectives.size)), np.float64)


def _payload(timed: TimedCollectives) -> Floats:
    """Return the bytes by which a collective chooses its channels, float64 [c]: what is gathered; else the most that a rank brings."""
    collectives = timed.collectives
    if not len(collectives):
        return np.zeros(0)
    moved = collectives.moved.astype(np.float64)
    gathered = collectives.op == Op.ALLGATHER
    return np.where(gathered, np.add.reduceat(moved, collectives.begin), np.maximum.reduceat(moved, collectives.begin))
