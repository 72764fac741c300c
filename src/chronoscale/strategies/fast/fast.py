"""FAST and the strategies of its ablation (section 6.3)."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.placements import Even, Greedy
from chronoscale.strategies.streams.strategy import StreamStrategy

SLIM = StreamFeeding(compressed=True, placement=Greedy.name, bound=True)
MERGED = StreamFeeding(merged=True, placement=Greedy.name, bound=True)

FAST = StreamStrategy(
    "fast",
    "FAST: SlimCache, topology-aware sampling",
    "FAST §4",
    SLIM,
    summary="As tgl, with compressed transfers, a greedy cache of features on the GPU, and sampling threads bound to processors.",
)
FAST_MERGED = StreamStrategy(
    "fast-merged",
    "FAST on batches that have each node and edge once",
    "FAST §4, MemShare §4.3",
    MERGED,
    summary="As fast, but each node and edge of a batch is computed on once.",
    ablates="fast",
)
PUBLISHED = StreamStrategy(
    "fast-published",
    "FAST as its public code samples",
    "github.com/NoneBone/FAST",
    replace(SLIM, published=True),
    summary="As fast, but neighbours only by events that a node sends, negatives of all nodes, a cache by the first half of training.",
    ablates="fast",
)

# What SlimCache is made of (Figures 5 and 8).
COMPRESSED = StreamStrategy(
    "fast-compressed",
    "SlimCache without a cache",
    "FAST §6.3, Figure 8b",
    StreamFeeding(compressed=True),
    summary="As tgl, with compressed transfers: a row is sent once a batch, however often it was sampled.",
    ablates="fast",
)
CACHED = StreamStrategy(
    "fast-cached",
    "SlimCache without compression",
    "FAST §4.2",
    StreamFeeding(placement=Greedy.name),
    summary="As tgl, with a greedy cache of features on the GPU.",
    ablates="fast",
)
HALVED = StreamFeeding(compressed=True, placement=Even.name)
EVEN = StreamStrategy(
    "fast-even",
    "SlimCache, halved between nodes and events",
    "FAST Figure 5b",
    HALVED,
    summary="As fast-compressed, with a cache that is split in half between nodes and events.",
    ablates="fast",
)

# The ladder of Figure 11c, with operators edge by edge on all rungs: TGL's node after node, and then FAST's.
LADDER = "FAST §6.3, Figure 11c"
NONE = StreamStrategy(
    "fast-none",
    "TGL, operators node after node",
    LADDER,
    StreamFeeding(operators="nodes"),
    summary="As tgl, with attention computed node after node.",
    ablates="fast",
)
SC = StreamStrategy(
    "fast-sc",
    "fast-none with SlimCache",
    LADDER,
    StreamFeeding(compressed=True, placement=Greedy.name, operators="nodes"),
    summary="As fast-none, with compressed transfers and a greedy cache (SlimCache).",
    ablates="fast",
)
TE = StreamFeeding(compressed=True, placement=Greedy.name, operators="edges")
SC_TE = StreamStrategy(
    "fast-sc-te",
    "fast-sc with thread-efficient operators",
    LADDER,
    TE,
    summary="As fast-sc, with attention computed edge by edge, a thread an edge.",
    ablates="fast",
)
SC_TE_TA = StreamStrategy(
    "fast-sc-te-ta",
    "fast-sc-te with topology-aware sampling",
    LADDER,
    replace(TE, bound=True),
    summary="As fast-sc-te, with sampling threads bound to processors.",
    ablates="fast",
)
