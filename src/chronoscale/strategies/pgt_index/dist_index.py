"""Distributed-index-batching: a copy of the data on every rank; shuffling needs no communication (PGT-I §4.2)."""

from __future__ import annotations

from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.stores import DEVICE
from chronoscale.strategies.signals.strategy import SignalStrategy

DIST_INDEX = SignalStrategy("dist-index", "Distributed-index-batching", "PGT-I §4.2", Feeding(DEVICE))
