"""Generalized-distributed-index-batching: a mapped part of the data a rank, one block a batch (PGT-I §5.4)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import PART
from chronoscale.strategies.signals.strategy import SignalStrategy

GEN_DIST_INDEX = SignalStrategy("gen-dist-index", "Generalized-distributed-index-batching", "PGT-I §5.4", Feeding(PART, local=True))
