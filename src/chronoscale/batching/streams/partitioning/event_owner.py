"""Following: events that go with their nodes."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.request import Asked, Put
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams import draws

_EVENTS = 1  # what a key of the seed is for


def follow(asked: Asked, node: Int32, put: Put) -> Int32:
    """An event goes with its source, also where it is cut; where the source is shared with its destination, and where both are to a part at
    random (MemShare §5.4). Returns `node`."""
    key, begin = draws.key_of(asked.seed, _EVENTS), 0
    for src, dst, _ in asked.blocks():
        part = np.where(node[src] == SHARED, node[dst], node[src])
        between = np.flatnonzero(part == SHARED)
        part[between] = draws.below(key, begin + between, 0, asked.count)
        put(part)
        begin += src.size
    return node
