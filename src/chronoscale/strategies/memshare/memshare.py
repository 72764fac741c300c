"""MemShare and the strategies of its ablation (section 5.4)."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy

ALL = Sharing(shared=True, synchronised="significant", smooth=True, neighbours="decay", negatives=True, pipelined=True)
MEMSHARE = SpreadStrategy(
    "memshare",
    "MemShare: hot nodes shared, neighbours with boundary decay, pipelined",
    "MemShare §3, §4",
    ALL,
    summary="Each GPU has a part of the node memory and a copy of the hot nodes; local neighbours are preferred, communication overlaps.",
)

MEMSHARE_CACHED = SpreadStrategy(
    "memshare-cached",
    "memshare whose remote rows are fetched once",
    "ours",
    replace(ALL, cached=True),
    summary="As memshare, but each GPU caches remote rows until an event changes them: the same losses with fewer bytes fetched.",
)

MEMSHARE_STALE = SpreadStrategy(
    "memshare-stale",
    "memshare-cached that reads neighbours left out from the cache",
    "ours",
    replace(ALL, neighbours="decay-cached", cached=True),
    summary="As memshare-cached, but remote neighbours that are not sampled are read from the cache where it has them, however old.",
)

MEMSHARE_REPLICAS = SpreadStrategy(
    "memshare-replicas",
    "memshare in groups of ranks that take turns in time",
    "ours, of MemShare §3 and DistTGL §3.2",
    replace(ALL, grouped=True),
    summary="Each of several groups of GPUs has all node memory in memshare's parts and trains a span of time of its own, as in disttgl.",
)

# The ladder of Figure 11: each rung adds one part to the one before, from tgl-dist on.
LADDER = "MemShare §5.4, Figure 11"
SHARED = SpreadStrategy(
    "memshare-shared",
    "tgl-dist with hot nodes in all parts",
    LADDER,
    Sharing(shared=True),
    summary="As tgl-dist, with a copy of the hot nodes on every GPU.",
    ablates="memshare",
)
SMOOTHED = replace(SHARED.sharing, synchronised="significant", smooth=True)
HISTORY = SpreadStrategy(
    "memshare-history",
    "memshare-shared with aging inspection and smoothed memory",
    LADDER,
    SMOOTHED,
    summary="As memshare-shared, but only significant changes of hot nodes are synchronised, and memory is smoothed.",
    ablates="memshare",
)
DECAYED = replace(SMOOTHED, neighbours="decay")
DECAY = SpreadStrategy(
    "memshare-decay",
    "memshare-history with boundary-decay sampling",
    LADDER,
    DECAYED,
    summary="As memshare-history, but remote neighbours are sampled with a lower probability.",
    ablates="memshare",
)
NEGATIVES = SpreadStrategy(
    "memshare-negatives",
    "memshare-decay with local negatives",
    LADDER,
    replace(DECAYED, negatives=True),
    summary="As memshare-decay, but most negative samples are drawn from the own part.",
    ablates="memshare",
)

# What sampling and synchronisation are compared with (Figures 13 and 14).
OF_SAMPLING, OF_MEMORY = "MemShare Figure 13", "MemShare Figure 14"
RECENT = SpreadStrategy(
    "memshare-recent",
    "memshare with the most recent neighbours",
    OF_SAMPLING,
    replace(ALL, neighbours="recent"),
    summary="As memshare, but the most recent neighbours are sampled, wherever they are.",
    ablates="memshare",
)
LOCAL = SpreadStrategy(
    "memshare-local",
    "memshare with local neighbours alone",
    OF_SAMPLING,
    replace(ALL, neighbours="local"),
    summary="As memshare, but only neighbours of the own part are sampled.",
    ablates="memshare",
)
EVERY = replace(ALL, synchronised="all", smooth=False)
UPDATED = SpreadStrategy(
    "memshare-all",
    "memshare that synchronises every change",
    OF_MEMORY,
    EVERY,
    summary="As memshare, but every change of a hot node is synchronised.",
    ablates="memshare",
)
NEVER = SpreadStrategy(
    "memshare-never",
    "memshare that synchronises nothing",
    OF_MEMORY,
    replace(EVERY, synchronised="never"),
    summary="As memshare, but changes of hot nodes are never synchronised.",
    ablates="memshare",
)
