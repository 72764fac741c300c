"""FAST and what its ablation (section 6.3) leaves of it."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.placements.even import Even
from chronoscale.strategies.streams.placements.greedy import Greedy
from chronoscale.strategies.streams.strategy import StreamStrategy

SLIM = Feeding(compressed=True, placement=Greedy.name)
MERGED = Feeding(merged=True, placement=Greedy.name)
HALVED = Feeding(compressed=True, placement=Even.name)

FAST = StreamStrategy("fast", "FAST: SlimCache", "FAST §4", SLIM)
FAST_MERGED = StreamStrategy("fast-merged", "FAST on batches that have each node and edge once", "FAST §4.2, MemShare §4.3", MERGED)
COMPRESSED = StreamStrategy("fast-compressed", "FAST without a cache", "FAST §6.3, Figure 8b", Feeding(compressed=True))
CACHED = StreamStrategy("fast-cached", "FAST without compression", "FAST §4.2", Feeding(placement=Greedy.name))
EVEN = StreamStrategy("fast-even", "FAST, its cache halved between nodes and events", "FAST Figure 5b", HALVED)
