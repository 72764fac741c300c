"""Baselines on signals: PyTorch Geometric Temporal on one GPU, and distributed data parallel over a data engine."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import SPREAD, WINDOWS
from chronoscale.strategies.signals.strategy import SignalStrategy

PGT = SignalStrategy("pgt", "PyTorch Geometric Temporal: windows materialised", "PGT-I §2.3, Algorithm 1", Feeding(WINDOWS))
DDP = SignalStrategy("ddp", "Distributed data parallel: windows spread, fetched on demand", "PGT-I §5", Feeding(SPREAD))
DDP_BATCH = SignalStrategy(
    "ddp-batch", "As ddp, whole batches from a fixed part a rank", "PGT-I §5.4, Figure 9", Feeding(SPREAD, local=True)
)
