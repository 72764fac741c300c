"""TGL: sample, gather, send, update memory, layers, write back; the next batch is fetched while one trains."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.strategy import StreamStrategy

TGL = StreamStrategy("tgl", "TGL: batches prefetched, a row a sampled slot", "Zhou et al., VLDB 2022, §3", Feeding())
SEQUENTIAL = StreamStrategy("sequential", "As tgl, nothing overlaps", "Zhou et al., VLDB 2022, §3", Feeding(), ahead=0)
TGL_UNIQUE = StreamStrategy("tgl-unique", "As tgl, each node and edge of a batch once", "MemShare §4.3", Feeding(merged=True))
