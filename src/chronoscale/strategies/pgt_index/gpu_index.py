"""GPU-index-batching: the data go to the device once, and windows are cut out there (PGT-I §4.1)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import DEVICE
from chronoscale.strategies.signals.strategy import SignalStrategy

GPU_INDEX = SignalStrategy("gpu-index", "GPU-index-batching", "PGT-I §4.1", Feeding(DEVICE))
