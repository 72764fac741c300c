"""Baselines on event streams: those whose features come from the host, and those whose node memory is spread over ranks."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.placements import NodesFirst, Retained
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.streams.strategy import StreamStrategy

TGL = StreamStrategy(
    "tgl",
    "TGL: batches prefetched, a row a sampled slot",
    "Zhou et al., VLDB 2022, §3",
    StreamFeeding(),
    summary="While a batch trains, the next one is sampled, gathered on the host and sent, one row a sampled slot.",
)
SEQUENTIAL = StreamStrategy(
    "sequential",
    "As tgl, nothing overlaps",
    "Zhou et al., VLDB 2022, §3",
    StreamFeeding(),
    ahead=0,
    summary="As tgl, but nothing overlaps: a batch is sampled when the one before is over.",
)
TGL_UNIQUE = StreamStrategy(
    "tgl-unique",
    "As tgl, each node and edge of a batch once",
    "MemShare §4.3",
    StreamFeeding(merged=True),
    summary="As tgl, but each node and edge of a batch is gathered and sent once.",
)
ETC = StreamStrategy(
    "etc",
    "ETC: distinct rows alone, a pipeline of three stages",
    "Gao et al., VLDB 2024, as in FAST §6",
    StreamFeeding(compressed=True),
    ahead=2,
    summary="As tgl, but a row is sent once a batch, and sampling, sending and computing form a pipeline of three stages.",
)
TASER = StreamStrategy(
    "taser",
    "TASER: a cache that stays, nodes first",
    "Deng et al., IPDPS 2024, as in FAST §6.3",
    StreamFeeding(placement=NodesFirst.name),
    summary="As tgl, with the most frequent rows of features in a static cache on the GPU, nodes first.",
)
SIMPLE = StreamStrategy(
    "simple",
    "SIMPLE: a cache that changes, nodes first",
    "Gao et al., SIGMOD 2024, as in FAST §6.3",
    StreamFeeding(placement=Retained.name),
    summary="As tgl, with a cache on the GPU whose rows change from batch to batch, nodes first.",
)
TGL_DIST = SpreadStrategy(
    "tgl-dist",
    "TGL on parts: remote rows are fetched, and written back",
    "MemShare §5.1",
    Sharing(),
    summary="Node memory and features are cut into one part a GPU; remote rows are fetched before a batch and written back after.",
)
TGL_DIST_CACHED = SpreadStrategy(
    "tgl-dist-cached",
    "tgl-dist whose remote rows are fetched once",
    "ours",
    Sharing(cached=True),
    summary="As tgl-dist, but each GPU caches remote rows until an event changes them: the same losses with fewer bytes fetched.",
)
MSPIPE = SpreadStrategy(
    "mspipe",
    "MSPipe: pipelined with stale memory",
    "Sheng et al., SIGKDD 2024, as in MemShare §5.1",
    Sharing(pipelined=True, stale=True),
    summary="As tgl-dist, but remote memory is read some iterations early, so that communication overlaps.",
)
DISTTGL = SpreadStrategy(
    "disttgl",
    "DistTGL: memory replicated, a span of time a rank",
    "Zhou et al., SC 2023, as in MemShare §2.2",
    Sharing(replicated=True, pipelined=True),
    summary="Each GPU has a copy of all node memory and trains a span of time of its own; only gradients are exchanged.",
)
