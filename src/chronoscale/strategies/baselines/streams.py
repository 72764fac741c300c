"""Baselines on event streams: those whose features come from the host, and those whose node memory is spread over ranks."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.placements import NodesFirst, Retained
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.streams.strategy import StreamStrategy

TGL = StreamStrategy("tgl", "TGL: batches prefetched, a row a sampled slot", "Zhou et al., VLDB 2022, §3", Feeding())
SEQUENTIAL = StreamStrategy("sequential", "As tgl, nothing overlaps", "Zhou et al., VLDB 2022, §3", Feeding(), ahead=0)
TGL_UNIQUE = StreamStrategy("tgl-unique", "As tgl, each node and edge of a batch once", "MemShare §4.3", Feeding(merged=True))
ETC = StreamStrategy(
    "etc", "ETC: distinct rows alone, a pipeline of three stages", "Gao et al., VLDB 2024, as in FAST §6", Feeding(compressed=True), ahead=2
)
TASER = StreamStrategy(
    "taser", "TASER: a cache that stays, nodes first", "Deng et al., IPDPS 2024, as in FAST §6.3", Feeding(placement=NodesFirst.name)
)
SIMPLE = StreamStrategy(
    "simple", "SIMPLE: a cache that changes, nodes first", "Gao et al., SIGMOD 2024, as in FAST §6.3", Feeding(placement=Retained.name)
)
TGL_DIST = SpreadStrategy("tgl-dist", "TGL on parts: remote rows are fetched, and written back", "MemShare §5.1", Sharing())
MSPIPE = SpreadStrategy(
    "mspipe",
    "MSPipe: pipelined with stale memory",
    "Sheng et al., SIGKDD 2024, as in MemShare §5.1",
    Sharing(pipelined=True, stale=True),
)
DISTTGL = SpreadStrategy(
    "disttgl",
    "DistTGL: memory replicated, a span of time a rank",
    "Zhou et al., SC 2023, as in MemShare §2.2",
    Sharing(replicated=True, pipelined=True),
)
