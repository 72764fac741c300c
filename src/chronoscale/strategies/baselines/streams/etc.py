"""ETC: a batch's rows cross the bus once, and sampling, sending and computing are three stages of a pipeline."""

from __future__ import annotations

from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.strategy import StreamStrategy

SOURCE = "Gao et al., VLDB 2024, as in FAST §6"
ETC = StreamStrategy("etc", "ETC: distinct rows alone, a pipeline of three stages", SOURCE, Feeding(compressed=True), ahead=2)
