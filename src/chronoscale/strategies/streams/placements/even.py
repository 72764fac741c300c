"""Even: half of the room for nodes and half for events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, RowFrequencies
from chronoscale.strategies.streams.placements.often import often


@dataclass(frozen=True, slots=True)
class Even:
    """Each half (FAST, Figure 5b) by falling frequency; what one cannot use is the other's."""

    name: ClassVar[str] = "even"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """As `Placement` says."""
        half, edges = room.total // 2, seen.edges.size * room.edge
        nodes = often(seen.nodes, max(half, room.total - edges), room.node)
        return CachedRows(nodes, often(seen.edges, room.total - nodes.size * room.node, room.edge))
