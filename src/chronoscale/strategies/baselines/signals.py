"""Baselines on signals: PyTorch Geometric Temporal on one GPU, and distributed data parallel over a data engine."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.signals.stores import SPREAD, WINDOWS
from chronoscale.strategies.signals.strategy import SignalStrategy

PGT = SignalStrategy(
    "pgt",
    "PyTorch Geometric Temporal: windows materialised",
    "PGT-I §2.3, Algorithm 1",
    SignalFeeding(WINDOWS),
    summary="Every window of the signal is copied out before training; each batch is sent from host memory.",
)
DDP = SignalStrategy(
    "ddp",
    "Distributed data parallel: windows spread, fetched on demand",
    "PGT-I §5",
    SignalFeeding(SPREAD),
    summary="Copied windows are spread over the workers of a data engine, and each GPU fetches its batches on demand.",
)
DDP_BATCH = SignalStrategy(
    "ddp-batch",
    "As ddp, whole batches from a fixed part a rank",
    "PGT-I §5.4, Figure 9",
    SignalFeeding(SPREAD, local=True),
    summary="As ddp, but each GPU takes whole batches from a fixed part of the windows.",
)
