"""Index-batching: one copy of the data and a start index a window (PGT-I §4.1)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import ARRAY
from chronoscale.strategies.signals.strategy import SignalStrategy

INDEX = SignalStrategy("index", "Index-batching", "PGT-I §4.1, eq. 2", Feeding(ARRAY))
