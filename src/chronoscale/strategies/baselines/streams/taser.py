"""TASER: a cache that stays, nodes first."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.placements.nodes_first import NodesFirst
from chronoscale.strategies.streams.strategy import StreamStrategy

SOURCE = "Deng et al., IPDPS 2024, as in FAST §6.3"
TASER = StreamStrategy("taser", "TASER: a cache that stays, nodes first", SOURCE, Feeding(placement=NodesFirst.name))
