"""DDP: materialised windows spread over the workers of a data engine, fetched a batch at a time."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import SPREAD
from chronoscale.strategies.signals.strategy import SignalStrategy

DDP = SignalStrategy("ddp", "Distributed data parallel: windows spread, fetched on demand", "PGT-I §5", Feeding(SPREAD))
DDP_BATCH = SignalStrategy(
    "ddp-batch", "As ddp, whole batches from a fixed part a rank", "PGT-I §5.4, Figure 9", Feeding(SPREAD, local=True)
)
