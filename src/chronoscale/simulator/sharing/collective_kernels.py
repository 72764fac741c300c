"""Collective kernels: what collectives take of the devices whose bytes they move, beside kernels of the schedule.

A channel of NCCL is one thread block, on an SM of its own. A rank reads what it sends, and writes what it receives, in its device's memory.
Ranks on CPUs of one machine copy what they send with a core each.
"""

from __future__ import annotations

import numpy as np

from chronoscale.simulator.network.collectives import Collectives
from chronoscale.simulator.network.nccl import constants_of
from chronoscale.simulator.network.traffic import links_are_measured
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op


def device_shares(collectives: Collectives, ns: Ints, cluster: Cluster) -> tuple[Floats, Floats]:
    """Return what shares of memory bandwidth and of SMs, or cores, the r rows of collectives take of their rank's device, float64 [r] each,
    0 to 1.

    ns: what each row takes alone, int64 [r]. One rank alone takes nothing, and so do links of GPUs that were fitted: those measurements
    contain it. No SMs are counted where the device's number is unknown.
    """
    device, several = cluster.device, np.repeat(collectives.size > 1, collectives.size)
    if device.cores:
        each = min(1.0, 1.0 / device.cores) if device.copies_messages else 0.0
        return np.zeros(len(ns)), np.where(several, each, 0.0)
    if links_are_measured(cluster):
        return np.zeros(len(ns)), np.zeros(len(ns))
    channels, reached = constants_of(cluster).channels, device.memory_bandwidth * device.memory_efficiency
    memory = np.minimum(memory_bytes(collectives) / (np.maximum(ns, 1) * 1e-9 * reached), 1.0)
    sms = np.clip(collectives.moved // channels.bytes, 1, channels.most) / device.sms if device.sms else np.zeros(len(ns))
    return memory * several, np.minimum(sms, 1.0) * several


def memory_bytes(collectives: Collectives) -> Floats:
    """Return what each row of collectives reads and writes in its device's memory, bytes, float64 [r].

    All-reduce by a ring: 2 (P-1)/P n are sent, and as many received; all-gather: what the others contribute; all-to-all: n; SEND and RECV
    do one of both.
    """
    op, size = np.repeat(collectives.op, collectives.size), np.repeat(collectives.size, collectives.size).astype(np.float64)
    moved = collectives.moved.astype(np.float64)
    others = np.repeat(np.add.reduceat(moved, collectives.begin), collectives.size) - moved if len(collectives) else moved
    kinds = [op == Op.ALLREDUCE, op == Op.ALLGATHER, op == Op.ALLTOALL]
    return np.asarray(np.select(kinds, [4 * (size - 1) / size * moved, 2 * others, 2 * moved], moved), np.float64)
