"""At random: nodes by a hash of their ids, as GNNFlow has them."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.streams.partitioning.event_owner import follow
from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.request import Asked, Put
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams import draws

_NODES = 0  # what a key of the seed is for


def at_random(asked: Asked, put: Put) -> Int32:
    """As `Partitioner` (Zhong et al., 2023, hash partitioning); an event goes with its source (`follow`)."""
    drawn = draws.below(draws.key_of(asked.seed, _NODES), np.arange(asked.shared.size), 0, asked.count)
    return follow(asked, np.where(asked.shared, SHARED, drawn).astype(np.int32), put)
