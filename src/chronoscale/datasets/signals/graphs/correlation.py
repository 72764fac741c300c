"""Graph of sensors whose readings go together, by the training part alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.unpacking import free_memory
from chronoscale.errors import UserError

SHARED = 30  # steps at which both sensors have a reading, without which two are not compared
MATRICES = 10  # of all pairs, float64, that are in memory together


@dataclass(frozen=True, slots=True)
class CorrelationGraph:
    """Recipe of a graph by correlation: an edge both ways between two sensors of which one is among the `neighbours` that the other goes
    together with best, where Pearson's correlation of their first channels is at least `threshold`, which it weighs.

    Only the steps that training reads are looked at. Of two sensors those count at which both have a reading, at least SHARED.
    """

    neighbours: int = 8
    threshold: float = 0.5

    def build(self, signal: Signal, training_steps: int) -> SensorGraph:
        """Build the graph of a signal's sensors from its first `training_steps` steps. Raises UserError where no two go together so, and
        where the matrices of all pairs would not fit into memory."""
        needed, free = MATRICES * 8 * signal.num_nodes**2, free_memory()
        if needed > free:
            pairs = f"all pairs of {signal.num_nodes:,} sensors take {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB of memory are free"
            raise UserError(f"graph: kind correlation: {pairs}; take knn, or a file")
        if signal.num_nodes < 2:
            raise UserError("graph: kind correlation: one sensor alone has no neighbours; take kind none")
        matrix = correlations(signal, training_steps)
        np.fill_diagonal(matrix, np.nan)
        ranked = np.argsort(np.where(np.isnan(matrix), -np.inf, matrix), axis=1, kind="stable")[:, ::-1][:, : self.neighbours]
        src = np.repeat(np.arange(len(matrix), dtype=np.int64), ranked.shape[1])
        dst = ranked.ravel().astype(np.int64)
        weight = matrix[src, dst]
        strong = weight >= self.threshold  # not where there is none
        if not strong.any():
            most = "none can be compared" if np.isnan(weight).all() else f"the most is {np.nanmax(weight):.2g}"
            text = f"no two sensors correlate by {self.threshold:g} in the first {training_steps:,} steps, {most}"
            raise UserError(f"graph.threshold: {text}; say a lower one, or take another kind")
        note = f"correlation of the first {training_steps:,} steps: the {self.neighbours} highest of each, at least {self.threshold:g}"
        return SensorGraph.of(src[strong], dst[strong], weight[strong], note).both_ways()

    def places(self, signal: Signal) -> None:
        """Return where sensors stand: nothing says so."""
        return None


def correlations(signal: Signal, steps: int) -> Float64:
    """Compute Pearson's correlation of the first channel of every two sensors over a signal's first steps, float64 [N, N]; NaN where fewer
    than SHARED steps have a reading of both, and for a sensor that does not change there."""
    x = signal.values[:steps, :, 0].astype(np.float64)
    there = np.ones(x.shape) if signal.missing is None else (~signal.missing[:steps, :, 0]).astype(np.float64)
    mean = np.divide((np.where(there > 0, x, 0)).sum(0), np.maximum(there.sum(0), 1))
    x = np.where(there > 0, x - mean, 0.0)  # about its own mean, so that sums of squares lose no digits
    scale = np.abs(x).max(0, initial=0)
    x = np.divide(x, np.where(scale > 0, scale, 1))
    count, total, squares = there.T @ there, x.T @ there, np.square(x).T @ there  # of i, at the steps of both
    n = np.maximum(count, 1)
    spread = squares - np.square(total) / n
    with np.errstate(invalid="ignore", divide="ignore"):
        result = (x.T @ x - total * total.T / n) / np.sqrt(spread * spread.T)
    flat = spread <= 1e-12 * n
    result[(count < SHARED) | flat | flat.T] = np.nan
    return np.clip(result, -1, 1)
