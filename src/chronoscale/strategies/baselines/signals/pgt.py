"""PGT: every sliding window copied out before training, the workflow that PGT-I starts from (Algorithm 1)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import WINDOWS
from chronoscale.strategies.signals.strategy import SignalStrategy

PGT = SignalStrategy("pgt", "PyTorch Geometric Temporal: windows materialised", "PGT-I §2.3, Algorithm 1", Feeding(WINDOWS))
