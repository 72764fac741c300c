"""FAST and what its ablation (section 6.3) leaves of it."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.placements import Even, Greedy
from chronoscale.strategies.streams.strategy import StreamStrategy

SLIM = Feeding(compressed=True, placement=Greedy.name, bound=True)
MERGED = Feeding(merged=True, placement=Greedy.name, bound=True)

FAST = StreamStrategy("fast", "FAST: SlimCache, topology-aware sampling", "FAST §4", SLIM)
FAST_MERGED = StreamStrategy("fast-merged", "FAST on batches that have each node and edge once", "FAST §4, MemShare §4.3", MERGED)

# What SlimCache is made of (Figures 5 and 8).
COMPRESSED = StreamStrategy("fast-compressed", "SlimCache without a cache", "FAST §6.3, Figure 8b", Feeding(compressed=True))
CACHED = StreamStrategy("fast-cached", "SlimCache without compression", "FAST §4.2", Feeding(placement=Greedy.name))
HALVED = Feeding(compressed=True, placement=Even.name)
EVEN = StreamStrategy("fast-even", "SlimCache, halved between nodes and events", "FAST Figure 5b", HALVED)

# The ladder of Figure 11c, with operators edge by edge on all rungs: TGL's node after node, and then FAST's.
LADDER = "FAST §6.3, Figure 11c"
NONE = StreamStrategy("fast-none", "TGL, operators node after node", LADDER, Feeding(operators="nodes"))
SC = StreamStrategy("fast-sc", "fast-none with SlimCache", LADDER, Feeding(compressed=True, placement=Greedy.name, operators="nodes"))
TE = Feeding(compressed=True, placement=Greedy.name, operators="edges")
SC_TE = StreamStrategy("fast-sc-te", "fast-sc with thread-efficient operators", LADDER, TE)
SC_TE_TA = StreamStrategy("fast-sc-te-ta", "fast-sc-te with topology-aware sampling", LADDER, replace(TE, bound=True))
