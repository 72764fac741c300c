"""Row descriptors of snapshot groups: how much work each operation is, counted from statistics alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.csr import DeltaCSR, WeightedCSR
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.workload import Workload

FP32 = 4
ENTRY = 8  # bytes of one stored edge: int32 index, fp32 value
Columns = dict[str, Ints]


@dataclass(frozen=True, slots=True)
class Rows:
    """Descriptors for GCN-based models on snapshots; every method takes snapshot numbers int64 [n] and returns int64 [n] columns.

    Dense rows: every node of the id space has a row in every snapshot. The adjacency carries self-loops (A + I).
    """

    workload: Workload

    @property
    def nodes(self) -> int:
        return self.workload.snapshots.num_nodes

    @property
    def features(self) -> int:
        """Bytes of the input features."""
        return self.nodes * self.workload.model.inputs * FP32

    def edges(self, snapshot: Ints) -> Ints:
        """Stored entries of the full adjacency, self-loops included."""
        return self.workload.snapshots.edges[snapshot] + self.nodes

    def transfer(self, snapshot: Ints, delta: bool, features: NDArray[np.bool_]) -> Columns:
        """H2D of a snapshot in one form; `features` bool [n]: the input features travel with it."""
        stats = self.workload.snapshots
        if delta:
            rows, edges = stats.touched_rows[snapshot], stats.effective_edges[snapshot]
            moved = DeltaCSR.nbytes_of(rows, edges, self.nodes)
        else:
            edges = self.edges(snapshot)
            rows = np.full_like(edges, self.nodes)
            moved = WeightedCSR.nbytes_of(self.nodes, stats.edges[snapshot])
        moved = np.asarray(moved, np.int64) + features * self.features
        return {"nodes": np.full_like(edges, self.nodes), "edges": edges, "rows": rows, "bytes": moved, "alloc": moved}

    def aggregate(self, snapshot: Ints, width: int, kept: int = 1) -> Columns:
        """Full aggregation of features of one width; `kept` copies of the result stay (two where increments go on from it)."""
        edges = self.edges(snapshot)
        rows = np.full_like(edges, self.nodes)
        moved = edges * (width * FP32 + ENTRY) + rows * width * FP32
        return self._work(edges, rows, width, moved, 2 * edges * width, kept * rows * width * FP32)

    def increment(self, snapshot: Ints) -> Columns:
        """Incremental aggregation of the input features: effective edges, touched rows (REAL eq. 3)."""
        stats, width = self.workload.snapshots, self.workload.model.inputs
        rows, edges = stats.touched_rows[snapshot], stats.effective_edges[snapshot]
        moved = edges * (width * FP32 + ENTRY) + 3 * rows * width * FP32
        return self._work(edges, rows, width, moved, 2 * edges * width, rows * width * FP32)

    def transform(self, rows: Ints, width: int) -> Columns:
        """Dense transformation of `rows` aggregated rows to the hidden width."""
        hidden = self.workload.model.hidden
        moved = rows * (width + hidden) * FP32
        return self._work(np.zeros_like(rows), rows, width, moved, 2 * rows * width * hidden, self.nodes * hidden * FP32)

    def reconstruct(self, snapshot: Ints) -> Columns:
        """The full adjacency of a snapshot from its predecessor's and the difference map (REAL §4.3)."""
        stats = self.workload.snapshots
        edges = self.edges(snapshot) + stats.effective_edges[snapshot]
        moved = 2 * edges * ENTRY
        return self._work(edges, stats.touched_rows[snapshot], 0, moved, np.zeros_like(edges), self.edges(snapshot) * ENTRY)

    def recurrence(self) -> Columns:
        """One step of the recurrent cell on every node."""
        model, nodes = self.workload.model, self.nodes
        hidden, gates = model.hidden, model.gates
        saved = nodes * hidden * (gates + 3) * FP32
        one = np.ones(1, np.int64)
        flops = nodes * hidden * (4 * gates * hidden + 4 * gates)
        return self._work(0 * one, nodes * one, hidden, (saved + 2 * nodes * hidden * FP32) * one, flops * one, saved * one)

    def backward(self, start: Ints, transformed: Ints) -> Columns:
        """A group's backward pass: twice the dense forward of cells and upper layers, the transposed aggregations above layer 1, and the
        weight gradient of `transformed` layer-1 rows (the input features have none).
        """
        model, size = self.workload.model, self.workload.hyper.group_size
        hidden, gates, nodes, upper = model.hidden, model.gates, self.nodes, model.layers - 1
        cell = nodes * hidden * 4 * gates * hidden
        edges = np.sum([self.edges(start + step) for step in range(size)], axis=0)
        dense = size * (model.layers * 2 * cell + upper * 4 * nodes * hidden * hidden)
        flops = dense + upper * 2 * edges * hidden + 2 * transformed * model.inputs * hidden
        states = size * model.layers * nodes * hidden * (2 * gates + 8) * FP32
        moved = states + upper * edges * (hidden * FP32 + ENTRY) + transformed * (model.inputs + hidden) * FP32
        return self._work(edges, nodes * size + transformed, hidden, moved, flops, np.zeros_like(edges))

    def _work(self, edges: Ints, rows: Ints, width: int, moved: Ints, flops: Ints, alloc: Ints | int) -> Columns:
        same = np.zeros_like(edges)
        return {
            "nodes": same + self.nodes, "edges": edges, "rows": rows, "width": same + width,
            "bytes": same + moved, "flops": same + flops, "alloc": same + alloc,
        }  # fmt: skip
