"""SensorGraph: the edges between the sensors of a signal, and what they were made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.datasets.arrays import Float32, Float64, Int32, Int64
from chronoscale.datasets.signals.signal import Signal


@dataclass(frozen=True, slots=True, eq=False)
class SensorGraph:
    """Graph of a signal's sensors: edge_index int32 [2, E] (sources, destinations, ordered by them), edge_weight float32 [E] or None
    (all 1). note: what it was made of, for the account that people see."""

    edge_index: Int32
    edge_weight: Float32 | None
    note: str

    @classmethod
    def of(cls, src: Int64, dst: Int64, weight: Float64 | None, note: str) -> SensorGraph:
        """Build a graph of edges in any order, int64 [E] each; weight float64 [E], None: 1. Of an edge that comes twice the last stays."""
        pairs = np.stack([src, dst])
        order = np.lexsort((np.arange(src.size), dst, src))
        ordered = pairs[:, order]
        last = np.append((np.diff(ordered) != 0).any(0), True) if src.size else np.zeros(0, np.bool_)
        chosen = order[last]
        return cls(pairs[:, chosen].astype(np.int32), None if weight is None else weight[chosen].astype(np.float32), note)

    def both_ways(self) -> SensorGraph:
        """Return the graph with every edge in both directions; of two weights of a pair the larger stays."""
        src, dst = self.edge_index.astype(np.int64)
        weight = np.ones(src.size) if self.edge_weight is None else self.edge_weight.astype(np.float64)
        order = np.argsort(np.concatenate([weight, weight]), kind="stable")
        ways = np.concatenate([src, dst])[order], np.concatenate([dst, src])[order], np.concatenate([weight, weight])[order]
        return SensorGraph.of(ways[0], ways[1], None if self.edge_weight is None else ways[2], self.note)

    def attach(self, signal: Signal) -> Signal:
        """Return the signal on this graph, whose edges replace those that it has; its account says what they were made of."""
        account = {**signal.account, "graph": self.note}
        return replace(signal, edge_index=self.edge_index, edge_weight=self.edge_weight, account=account)
