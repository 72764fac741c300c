"""DistTGL: a copy of all memory a rank, and a span of time; ranks share gradients alone."""

from __future__ import annotations

from chronoscale.strategies.streams.sharing import Sharing
from chronoscale.strategies.streams.spread_strategy import SpreadStrategy

SOURCE = "Zhou et al., SC 2023, as in MemShare §2.2"
DISTTGL = SpreadStrategy("disttgl", "DistTGL: memory replicated, a span of time a rank", SOURCE, Sharing(replicated=True, pipelined=True))
