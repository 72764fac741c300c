"""Index-batching: windows are start indices into one array of readings, on one GPU and on several (PGT-I §4, §5.4)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.signals.stores import ARRAY, DEVICE, PART
from chronoscale.strategies.signals.strategy import SignalStrategy

INDEX = SignalStrategy(
    "index",
    "Index-batching",
    "PGT-I §4.1, eq. 2",
    SignalFeeding(ARRAY),
    summary="One array of readings in host memory; a window is a start index into it, gathered for each batch.",
)
GPU_INDEX = SignalStrategy(
    "gpu-index",
    "GPU-index-batching",
    "PGT-I §4.1",
    SignalFeeding(DEVICE),
    summary="As index, but the array is copied to the GPU once, and windows are gathered there.",
)
DIST_INDEX = SignalStrategy(
    "dist-index",
    "Distributed-index-batching",
    "PGT-I §4.2",
    SignalFeeding(DEVICE),
    summary="As gpu-index on several GPUs, each with a copy of the array; only gradients are exchanged.",
)
GEN_DIST_INDEX = SignalStrategy(
    "gen-dist-index",
    "Generalized-distributed-index-batching",
    "PGT-I §5.4",
    SignalFeeding(PART, local=True),
    summary="As dist-index, but each GPU reads blocks of a part of the array from a mapped file.",
)
