"""NodesFirst: rows that are asked for often, those of nodes first (TASER: Deng et al., IPDPS 2024, as FAST, section 6.3, has it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, RowFrequencies
from chronoscale.strategies.streams.placements.often import often


@dataclass(frozen=True, slots=True)
class NodesFirst:
    """Nodes by falling frequency, and events in the room that they leave."""

    name: ClassVar[str] = "nodes-first"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """As `Placement` says."""
        nodes = often(seen.nodes, room.total, room.node)
        return CachedRows(nodes, often(seen.edges, room.total - nodes.size * room.node, room.edge))
