"""Retained: rows that change from batch to batch (SIMPLE: Gao et al., SIGMOD 2024, as FAST, section 6.3, has it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, RowFrequencies


@dataclass(frozen=True, slots=True)
class Retained:
    """An epoch is sampled before it begins, and rows are kept between two uses (`caching.retention`); nodes have the room first.

    Which rows is chosen best, where SIMPLE's greedy choice is within a factor of it: its bytes are no fewer than these.
    """

    name: ClassVar[str] = "retained"
    dynamic: ClassVar[bool] = True

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """As `Placement` says: slots, and nothing in them."""
        nodes = min(seen.nodes.size, room.total // room.node) if room.node else 0
        edges = min(seen.edges.size, (room.total - nodes * room.node) // room.edge) if room.edge else 0
        return CachedRows(np.full(nodes, -1, np.int32), np.full(edges, -1, np.int32))
