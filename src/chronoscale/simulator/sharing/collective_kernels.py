"""Collective kernels: what collectives take of the devices whose bytes they move, beside kernels of the schedule.

A channel of NCCL is one thread block, on an SM of its own. A rank reads what it sends, and writes what it receives, in its device's memory.
"""

from __future__ import annotations

import numpy as np

from chronoscale.simulator.network.collectives import Collectives
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.costing.nccl_constants import Channels
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op


def device_shares(collectives: Collectives, ns: Ints, device: Device, channels: Channels) -> tuple[Floats, Floats]:
    """Return what shares of memory bandwidth and of SMs the r rows of collectives take of their rank's device, float64 [r] each, 0 to 1.

    ns: what each row takes alone, int64 [r]. One rank alone takes nothing, and no SMs are counted where the device's number is unknown.
    """
    seconds = np.maximum(ns, 1) * 1e-9
    several = np.repeat(collectives.size > 1, collectives.size)
    memory = np.minimum(memory_bytes(collectives) / (seconds * device.memory_bandwidth * device.memory_efficiency), 1.0)
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
