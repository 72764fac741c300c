"""Index-batching: windows are start indices into one array of readings, on one GPU and on several (PGT-I §4, §5.4)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import ARRAY, DEVICE, PART
from chronoscale.strategies.signals.strategy import SignalStrategy

INDEX = SignalStrategy("index", "Index-batching", "PGT-I §4.1, eq. 2", Feeding(ARRAY))
GPU_INDEX = SignalStrategy("gpu-index", "GPU-index-batching", "PGT-I §4.1", Feeding(DEVICE))
DIST_INDEX = SignalStrategy("dist-index", "Distributed-index-batching", "PGT-I §4.2", Feeding(DEVICE))
GEN_DIST_INDEX = SignalStrategy("gen-dist-index", "Generalized-distributed-index-batching", "PGT-I §5.4", Feeding(PART, local=True))
