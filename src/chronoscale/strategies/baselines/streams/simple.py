"""SIMPLE: a cache that changes from batch to batch, nodes first."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.placements.retained import Retained
from chronoscale.strategies.streams.strategy import StreamStrategy

SOURCE = "Gao et al., SIGMOD 2024, as in FAST §6.3"
SIMPLE = StreamStrategy("simple", "SIMPLE: a cache that changes, nodes first", SOURCE, Feeding(placement=Retained.name))
