"""Graph of each sensor's nearest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronoscale.datasets.signals.graphs.kernel import gaussian_kernel
from chronoscale.datasets.signals.graphs.positions import Positions, read_positions
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class NearestGraph:
    """Recipe of a graph of nearest neighbours: an edge both ways between two sensors of which one is among the `neighbours` nearest of the
    other. It weighs exp(-(distance / sigma)^2), which is never 0.

    path: coordinates, a row a sensor (`read_positions`). names: of its columns. sigma: None for the standard deviation of the distances
    between all sensors, as by `DistanceGraph`.
    """

    path: str
    names: Sequence[str] = ()
    neighbours: int = 8
    sigma: float | None = None

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors. Raises UserError for a file that does not fit them, and for too few sensors."""
        positions = read_positions(Path(self.path), self.names, signal)
        neighbours, distance = positions.nearest(self.neighbours)
        try:
            sigma = self.sigma if self.sigma is not None else positions.deviation()
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None
        src = np.repeat(np.arange(signal.num_nodes, dtype=np.int64), self.neighbours)
        weight = np.maximum(gaussian_kernel(distance.ravel(), sigma), np.finfo(np.float32).tiny)
        note = f"knn by {Path(self.path).name}: the {self.neighbours} nearest, both ways, sigma {sigma:.4g}{positions.unit}"
        return SensorGraph.of(src, neighbours.ravel(), weight, note).both_ways()

    def places(self, signal: Signal) -> Positions:
        """Return where sensors stand, for a map."""
        return read_positions(Path(self.path), self.names, signal)
