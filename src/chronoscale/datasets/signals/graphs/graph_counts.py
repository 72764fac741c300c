"""Counts of a sensor graph: degrees, sensors without a neighbour, components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal


@dataclass(frozen=True, slots=True, eq=False)
class GraphCounts:
    """Counts of a signal's graph, self-loops left out: edges; neighbours, int64 [N], of each sensor in either direction, each once;
    isolated: numbers of the sensors without one; components: of the graph without directions, isolated sensors among them."""

    edges: int
    neighbours: Int64
    isolated: Int64
    components: int

    @property
    def mean_degree(self) -> float:
        """The mean number of neighbours of a sensor."""
        return float(self.neighbours.mean()) if self.neighbours.size else 0.0

    @classmethod
    def of(cls, signal: Signal) -> GraphCounts:
        """Count the graph of a signal."""
        from scipy.sparse import coo_array  # noqa: PLC0415 (heavy, and most of what imports this file counts no graph)
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

        src, dst = signal.edge_index.astype(np.int64)
        apart = src != dst
        ends = np.concatenate([src[apart], dst[apart]]), np.concatenate([dst[apart], src[apart]])
        both = coo_array((np.ones(ends[0].size, np.int32), ends), (signal.num_nodes,) * 2).tocsr()  # sums what comes twice into one entry
        neighbours = np.diff(both.indptr).astype(np.int64)
        components = int(connected_components(both, directed=False)[0])
        return cls(int(apart.sum()), neighbours, np.flatnonzero(neighbours == 0).astype(np.int64), components)
