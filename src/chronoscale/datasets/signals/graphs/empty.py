"""Graph without an edge, for readings whose sensors are meant to stand each by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.signal import Signal


@dataclass(frozen=True, slots=True)
class EmptyGraph:
    """Recipe of a graph without an edge: it says that this is meant, and takes away what edges a signal has."""

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors."""
        return SensorGraph(np.zeros((2, 0), np.int32), None, "none, as asked")

    def places(self, signal: Signal) -> None:
        """Return where sensors stand: nothing says so."""
        return None
