"""MemShare, and what its ablation (section 5.4) leaves of it."""

from __future__ import annotations

from dataclasses import replace

from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy

ALL = Sharing(shared=True, synchronised="significant", smooth=True, neighbours="decay", negatives=True, pipelined=True)
MEMSHARE = SpreadStrategy("memshare", "MemShare: hot nodes shared, neighbours with boundary decay, pipelined", "MemShare §3, §4", ALL)

# The ladder of Figure 11: each rung adds one part to the one before, from tgl-dist on.
LADDER = "MemShare §5.4, Figure 11"
SHARED = SpreadStrategy("memshare-shared", "tgl-dist with hot nodes in all parts", LADDER, Sharing(shared=True))
SMOOTHED = replace(SHARED.sharing, synchronised="significant", smooth=True)
HISTORY = SpreadStrategy("memshare-history", "memshare-shared with aging inspection and smoothed memory", LADDER, SMOOTHED)
DECAYED = replace(SMOOTHED, neighbours="decay")
DECAY = SpreadStrategy("memshare-decay", "memshare-history with boundary-decay sampling", LADDER, DECAYED)
NEGATIVES = SpreadStrategy("memshare-negatives", "memshare-decay with local negatives", LADDER, replace(DECAYED, negatives=True))

# What sampling and synchronisation are compared with (Figures 13 and 14).
OF_SAMPLING, OF_MEMORY = "MemShare Figure 13", "MemShare Figure 14"
RECENT = SpreadStrategy("memshare-recent", "memshare with the most recent neighbours", OF_SAMPLING, replace(ALL, neighbours="recent"))
LOCAL = SpreadStrategy("memshare-local", "memshare with local neighbours alone", OF_SAMPLING, replace(ALL, neighbours="local"))
EVERY = replace(ALL, synchronised="all", smooth=False)
UPDATED = SpreadStrategy("memshare-all", "memshare that synchronises every change", OF_MEMORY, EVERY)
NEVER = SpreadStrategy("memshare-never", "memshare that synchronises nothing", OF_MEMORY, replace(EVERY, synchronised="never"))
