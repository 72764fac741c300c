"""Row descriptors of snapshot groups: how much work each operation is, counted from statistics alone.

`flops` counts multiplications and additions of the mathematics: a sum over e entries of width w is 2 e w, a product [r, w] x [w, h] is
2 r w h; an attention entry adds SCORE for its score and exponential. `bytes` of a transfer are exactly what is moved; those of a
computation were counted (`strategies.costing.kernels`). All counts are int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.operators.row_blocks import BLOCK_NUMBERS
from chronoscale.datasets.snapshots.csr import DeltaCSR, WeightedCSR
from chronoscale.datasets.snapshots.difference import EdgeMap
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.variants import Form, TransformVariant
from chronoscale.strategies.workload import ModelShape, Workload

FP32 = 4
ENTRY = 8  # bytes of one stored edge: int32 index, fp32 value
SCORE = 5  # flops of an attention entry beside its weighted sum: add, leaky ReLU, shift, exponential, sum of weights
Columns = dict[str, Ints]


def working_numbers(model: ModelShape, rows: Ints | int, layer: int) -> Ints:
    """Count the working memory of a layer's planned gradient pass for `rows` nodes, beside what earlier operations have left: float32
    numbers, int64.

    It holds gradients of a cell's states and of its input, predictions and their errors, and blocks of rows between two steps
    (`cuda_ext.operators.row_blocks`): an LSTM's gates, or what a GRU's gates have of input and of state. The gradient of the cell's output
    is there before.
    """
    recurs = model.recurs(layer) and not model.evolves_weights
    whole = model.hidden * (1 + model.states * recurs) + 4 * model.outputs
    block = np.minimum(rows * model.hidden * (model.gates if recurs else 1), BLOCK_NUMBERS)
    return np.asarray(rows * whole + (2 if recurs and model.temporal == "gru" else 1) * block, np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Work and memory of snapshot groups that are whole on a rank, for planners of PSG, BLAD and REAL: methods take snapshot numbers int64
    [n] and return columns of one schedule row, int64 [n].

    Dense rows: every node of the id space has a row in every snapshot, or, where idle ones are folded into one (`folding`), `computed` says
    how many rows the snapshots have, int64 [n]. The adjacency carries self-loops (A + I).
    """

    workload: Workload
    computed: Ints | None = None

    @property
    def nodes(self) -> Ints | int:
        """The number of rows of each snapshot: nodes of the id space, or of them and the folded row."""
        return self.workload.snapshots.num_nodes if self.computed is None else self.computed

    @property
    def attends(self) -> bool:
        """Whether the model's aggregation is attention."""
        return self.workload.model.spatial == "gat"

    @property
    def features(self) -> Ints | int:
        """The bytes of a snapshot's input features, of all its rows."""
        return self.nodes * self.workload.model.inputs * FP32

    def edges(self, snapshot: Ints) -> Ints:
        """Return the stored entries of the snapshots' full adjacencies, self-loops included."""
        return self.workload.snapshots.edges[snapshot] + self.nodes

    def graph(self, snapshot: Ints) -> Ints:
        """Return the bytes of the snapshots' adjacencies on the device: with weights and row scale, or for attention without."""
        if self.attends:
            return 8 * (self.nodes + 1) + FP32 * self.edges(snapshot)
        return np.asarray(WeightedCSR.nbytes_of(self.nodes, self.workload.snapshots.edges[snapshot]), np.int64)

    def changed(self, snapshot: Ints) -> tuple[Ints, Ints]:
        """Return how many rows and entries of a snapshot's aggregation differ from the last snapshot's, so that REAL computes only these:
        effective changes for GCN; changed edges for attention and as published (REAL eq. 4).

        Attention computes some rows afresh, which depends on their scores: its counts are a lower bound.
        """
        stats = self.workload.snapshots
        if self.attends or self.workload.hyper.variant == "as-published":
            return stats.map_rows[snapshot], stats.changed_edges[snapshot]
        return stats.touched_rows[snapshot], stats.effective_edges[snapshot]

    def transfer(self, snapshot: Ints, form: Form, tracked: bool, features: NDArray[np.bool_]) -> Columns:
        """Return the columns of the planned H2D row that sends a snapshot in full, as changed edges, or as an increment (`form`).

        tracked: changes come with a map of changed edges, from which the adjacency is rebuilt; features bool [n]: input features travel
        with it.
        """
        stats = self.workload.snapshots
        if form is Form.FULL:
            edges, rows = self.edges(snapshot), np.full_like(snapshot, self.nodes)
            moved = self.graph(snapshot)
        else:
            rows, edges = self.changed(snapshot) if form is Form.DELTA else (stats.map_rows[snapshot], stats.changed_edges[snapshot])
            moved = np.zeros_like(edges)
            if tracked:
                moved = moved + EdgeMap.nbytes_of(stats.map_rows[snapshot], stats.changed_edges[snapshot])
            if form is Form.DELTA and not self.attends:
                moved = moved + DeltaCSR.nbytes_of(rows, edges, self.nodes)
        moved = np.asarray(moved, np.int64) + features * self.features
        copies = features + np.int64(self._tensors(form, tracked))
        sizes = {"nodes": np.full_like(edges, self.nodes), "edges": edges, "rows": rows, "bytes": moved}
        return {**sizes, "alloc": moved, "kernels": copies, "variant": np.full_like(edges, form)}

    def _tensors(self, form: Form, tracked: bool) -> int:
        """Return the number of arrays that are copied: pointers and indices, with weights values and scale; for changes those of their
        maps."""
        if form is Form.FULL:
            return 2 if self.attends else 4
        return 4 * tracked + 6 * (form is Form.DELTA and not self.attends)

    def aggregate(self, snapshot: Ints, width: int, kept: int = 1) -> Columns:
        """Return the columns of the planned AGGREGATE row of a whole snapshot, of features `width` wide; `kept` copies of the result stay
        allocated (two where increments go on from it)."""
        edges, rows = self.edges(snapshot), np.full_like(snapshot, self.nodes)
        if self.attends:
            return self._attend(edges, rows, rows)
        return self._work(edges, rows, width, 2 * edges * width, kept * rows * width * FP32)

    def increment(self, snapshot: Ints) -> Columns:
        """Return the columns of the planned INCREMENT row: the first layer's aggregation from the last snapshot's and the changed edges
        (REAL eq. 3, 7-8).

        GCN leaves the touched rows, and all rows where weights evolve and everything is transformed anew; attention a new state of all
        rows.
        """
        rows, edges = self.changed(snapshot)
        if self.attends:
            return self._attend(edges, rows, np.full_like(rows, self.nodes))
        width, all_rows = self.workload.model.inputs, self.workload.model.evolves_weights
        result = np.full_like(rows, self.nodes) if all_rows else rows
        return self._work(edges, rows, width, 2 * edges * width, result * width * FP32)

    def _attend(self, edges: Ints, rows: Ints, result: Ints) -> Columns:
        """Return the row of an attention over `edges` that leaves `result` rows."""
        hidden = self.workload.model.hidden
        # sums, outputs, a row's denominator, maximum and reference; of computed rows what the activation read; weights for the gradient
        held = (result * (2 * hidden + 3) + rows * hidden + edges) * FP32
        return self._work(edges, rows, hidden, edges * (2 * hidden + SCORE), held)

    def transform(self, rows: Ints, width: int, into: bool = False) -> Columns:
        """Return the columns of the planned TRANSFORM row that takes `rows` rows, `width` wide, to the hidden width; the result has a row
        for every node. into: they are put into a copy of the last snapshot's."""
        hidden = self.workload.model.hidden
        columns = self._work(np.zeros_like(rows), rows, width, 2 * rows * width * hidden, self.nodes * hidden * FP32)
        return {**columns, "variant": np.full_like(rows, TransformVariant.INTO if into else TransformVariant.WHOLE)}

    def rebuild(self, snapshot: Ints) -> Columns:
        """Return the columns of the planned RECONSTRUCT row that makes a snapshot's adjacency of its predecessor's and the changed edges
        (REAL §4.3)."""
        edges = self.edges(snapshot) + self.workload.snapshots.changed_edges[snapshot]
        rows, size = np.full_like(edges, self.nodes), self.graph(snapshot)
        return self._work(edges, rows, 0, np.zeros_like(edges), size)

    def copy(self) -> Columns:
        """Return the columns of the planned COPY row that hands node representations from one stage of BLAD's pipeline to the next on the
        device."""
        size = self.nodes * self.workload.model.hidden * FP32 * np.ones(1, np.int64)
        return self._work(0 * size, self.nodes + 0 * size, self.workload.model.hidden, 0 * size, size)

    def recurrence(self, layer: int) -> Columns:
        """Return the columns of the planned TEMPORAL row, one recurrent step: on every node, or on the columns of a layer's evolving
        weights."""
        model = self.workload.model
        rows, width = (model.hidden, model.width(layer)) if model.evolves_weights else (self.nodes, model.hidden)
        saved = rows * width * model.stepped * FP32
        scored = 2 * self.nodes * model.width(layer) * model.summarises
        ones = np.ones(1, np.int64)
        across = model.depth * width
        flops = rows * across * (4 * model.gates * width + 4 * model.gates) + scored
        return self._work(0 * ones, rows * ones, across, flops * ones, saved * ones)

    def backward(self, start: Ints, rows: Ints, edges: Ints) -> Columns:
        """Return the columns of the planned BACKWARD row of a whole snapshot group, whose first snapshot is `start`.

        It does twice the forward of recurrences and upper layers, the transposed aggregations above layer 1, and the gradient of what the
        group carries of layer 1: `rows` transformed ones (weight gradient: the input features have none), `edges` attended ones.
        """
        model, size = self.workload.model, self.workload.hyper.group_size
        hidden = model.hidden
        nodes = self.nodes
        upper = model.layers - 1
        total = np.sum([self.edges(start + step) for step in range(size)], axis=0)
        scored = 2 * nodes * model.summarises  # forward alone: a summary's gradient is of the nodes it picks
        recurrent = [layer for layer in range(model.layers) if model.recurs(layer)]
        cells = np.sum([2 * (self.recurrence(layer)["flops"] - scored * model.width(layer)) for layer in recurrent], axis=0)
        per_edge = 4 * hidden + 2 * SCORE if self.attends else 2 * hidden
        anew = size * nodes if model.evolves_weights else 0  # transformed by every group for itself
        flops = size * (cells + upper * 4 * nodes * hidden * hidden) + upper * total * per_edge
        flops = flops + 2 * (rows + anew) * model.inputs * hidden + edges * per_edge
        turned = size * 8 * (nodes + 1) + 16 * total if upper or self.attends else 0  # transposes, with the order they were sorted in
        own = FP32 * np.max([working_numbers(model, nodes, layer) for layer in range(model.layers)], axis=0)
        every = self.workload.snapshots.num_nodes  # whose predictions and errors
        own = own + 4 * FP32 * model.outputs * (every - nodes)
        readouts = size if model.predicts_each else 1  # whose gradients all come before any step's
        own = own + FP32 * ((readouts - model.evolves_weights) * model.hidden * nodes + (readouts - 1) * model.outputs * every)
        return self._work(total, nodes * size + rows, hidden, flops, turned + own)

    def _work(self, edges: Ints, rows: Ints, width: int, flops: Ints, alloc: Ints | int) -> Columns:
        """Return the columns of a row of computation."""
        same = np.zeros_like(edges)
        return {
            "nodes": same + self.nodes, "edges": edges, "rows": rows, "width": same + width,
            "flops": same + flops, "alloc": same + alloc,
        }  # fmt: skip
