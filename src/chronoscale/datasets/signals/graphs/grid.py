"""Graph of sensors that stand in rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.signals.graphs.positions import Positions
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}  # down and to the right; the way back comes with each


@dataclass(frozen=True, slots=True)
class GridGraph:
    """Recipe of a graph on a grid: sensors in `rows` x `columns`, row after row, with an edge both ways to the `neighbours`, 4 beside,
    above and below, or 8 with those at the corners; all weigh 1. Raises UserError for another number of neighbours."""

    rows: int
    columns: int
    neighbours: int = 4

    def __post_init__(self) -> None:
        if self.neighbours not in STEPS:
            raise UserError(f"graph.neighbours: on a grid 4 or 8, got {self.neighbours}")

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors. Raises UserError where they are not as many as the grid has places."""
        if self.rows * self.columns != signal.num_nodes:
            size = f"{self.rows} x {self.columns} = {self.rows * self.columns:,}"
            raise UserError(f"graph: a grid of {size} places, and there are {signal.num_nodes:,} sensors")
        numbers = np.arange(signal.num_nodes, dtype=np.int64).reshape(self.rows, self.columns)
        src, dst = [], []
        for down, right in STEPS[self.neighbours]:
            left, off = max(-right, 0), max(right, 0)
            src.append(numbers[: self.rows - down, left : self.columns - off].ravel())
            dst.append(numbers[down:, off : self.columns - left].ravel())
        note = f"grid of {self.rows} x {self.columns}, {self.neighbours} neighbours"
        return SensorGraph.of(np.concatenate([*src, *dst]), np.concatenate([*dst, *src]), None, note)

    def places(self, signal: Signal) -> Positions:
        """Return where sensors stand, for a map: the first row on top."""
        row, column = np.divmod(np.arange(signal.num_nodes), self.columns)
        return Positions(np.stack([column, self.rows - 1 - row], 1).astype(np.float64), geographic=False)
