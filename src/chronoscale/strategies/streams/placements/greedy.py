"""Greedy: SlimCache's placement, the room shared between nodes and events by how often each row is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, RowFrequencies


@dataclass(frozen=True, slots=True)
class Greedy:
    """FAST, Algorithm 1: rows by falling frequency, whichever table they are of, while they fit; of those alike events first.

    A row saves its bytes in each batch that asks for it, and takes the same bytes of room: so the frequency alone decides, also where rows
    of nodes and events differ in width, for which the algorithm as printed counts rows in place of bytes.
    """

    name: ClassVar[str] = "greedy"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """As `Placement` says."""
        asked = [seen.edges if room.edge else seen.edges[:0], seen.nodes if room.node else seen.nodes[:0]]
        order = np.argsort(-np.concatenate(asked), kind="stable")
        edges = order < asked[0].size
        fits = np.cumsum(np.where(edges, room.edge, room.node)) <= room.total
        return CachedRows((order[fits & ~edges] - asked[0].size).astype(np.int32), order[fits & edges].astype(np.int32))
