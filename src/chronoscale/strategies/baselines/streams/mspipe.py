"""MSPipe: remote memory is read some iterations before it is due, so that all communication has time."""

from __future__ import annotations

from chronoscale.strategies.streams.sharing import Sharing
from chronoscale.strategies.streams.spread_strategy import SpreadStrategy

SOURCE = "Sheng et al., SIGKDD 2024, as in MemShare §5.1"
MSPIPE = SpreadStrategy("mspipe", "MSPipe: pipelined with stale memory", SOURCE, Sharing(pipelined=True, stale=True))
