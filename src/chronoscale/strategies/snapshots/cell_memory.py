"""CellMemory: the order of a cell's stages, and the bytes of every tensor that a cell keeps, by name.

A cell is one (snapshot, layer) on one rank. Rows of a schedule take and give back tensors by the names of `CellMemory.sizes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronoscale.strategies.schedule import Ints, Op
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.workload import ModelShape

RESULTS = {Op.AGGREGATE: "sum", Op.TRANSFORM: "dense", Op.TEMPORAL: "gates"}  # the tensor that a stage leaves, by its name in memory


def stages(model: ModelShape, layer: int) -> tuple[Op, ...]:
    """Return the operations of a cell (one snapshot and one layer, 0-based, on one rank) in their order, for planners; TEMPORAL only where
    the layer has a recurrence."""
    if model.evolves_weights:
        return Op.AGGREGATE, Op.TEMPORAL, Op.TRANSFORM
    convolution = (Op.TRANSFORM, Op.AGGREGATE) if model.transforms_first else (Op.AGGREGATE, Op.TRANSFORM)
    return (*convolution, Op.TEMPORAL) if model.recurs(layer) else convolution


def output_stage(model: ModelShape, layer: int) -> Op:
    """Return the operation whose result a cell (one snapshot and one layer, 0-based) hands to the layer above: its last."""
    return stages(model, layer)[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Part of some snapshots that ranks have, as planners count its work: one entry a site (a rank and an iteration, or group); int64 [n]
    each.

    rows: own vertices. edges: stored edges that end there, self-loops not counted. halo: remote vertices whose rows are read. sent: own
    vertices whose rows other ranks read. summary: candidate rows over all ranks that EvolveGCN-H chooses from.
    """

    rows: Ints
    edges: Ints
    halo: Ints
    sent: Ints
    summary: Ints


@dataclass(frozen=True, slots=True)
class CellMemory:
    """Device memory of a model's cells (a cell: one snapshot and one layer on one rank), for plans of device memory: which tensors the
    passes keep, and their bytes.

    recomputes: the forward pass keeps a cell's inputs only, and the cell is computed again before its gradient (gradient checkpointing).
    parts: own rows are a part of the snapshot, so that remote rows come by ALLTOALL and stand behind own ones in one matrix. replicated:
    input features of remote rows come with the snapshot, which stays on the device for longer than its cells.
    """

    model: ModelShape
    recomputes: bool
    parts: bool
    replicated: bool = False
    _cached_sizes: dict[tuple[Region, int], Columns] = field(default_factory=dict)

    @property
    def splits(self) -> bool:
        """Whether a cell's planned gradient pass is cut in two: attention reads remote rows of this very layer's transformation."""
        return self.parts and self.model.transforms_first

    def sizes(self, region: Region, layer: int) -> Columns:
        """Return the bytes of every tensor of a cell by name ("graph", "sum", "state" ...), int64 [n] each; cached for the region of the
        last call."""
        if (region, layer) not in self._cached_sizes:
            if not any(known is region for known, _ in self._cached_sizes):
                self._cached_sizes.clear()
            self._cached_sizes[region, layer] = self._count_sizes(region, layer)
        return self._cached_sizes[region, layer]

    def _count_sizes(self, region: Region, layer: int) -> Columns:
        """Count the bytes of every tensor of a cell from the region's rows and the model's widths."""
        model = self.model
        width = self.model.width(layer)
        hidden = self.model.hidden
        recurrent = np.ones_like(region.rows) * hidden * width if model.evolves_weights else region.rows * hidden
        picked = np.minimum(region.rows, hidden) * width * model.summarises
        attended = region.rows * hidden + region.edges + region.rows  # sums and one weight an edge
        weights = FP32 * (region.edges + 2 * region.rows) * (not model.transforms_first)  # attention reads no weights
        return {
            "graph": 8 * (region.rows + 1) + FP32 * (region.edges + region.rows) + weights,
            "features": (region.rows + region.halo * self.replicated) * model.inputs * FP32,
            "input": region.rows * width * FP32,
            "wide": (region.rows + region.halo) * self.exchanged_width(layer) * FP32,
            "staged": region.sent * self.exchanged_width(layer) * FP32,
            "sum": (attended if model.transforms_first else region.rows * width + picked) * FP32,
            "dense": region.rows * hidden * FP32,
            "gates": recurrent * (model.stepped - model.depth * model.states) * FP32,
            "state": recurrent * model.depth * model.states * FP32,
            "summary": region.summary * width * FP32,
        }

    def exchanged_width(self, layer: int) -> int:
        """Return how many values a row has that other ranks read in `layer`: of transformed rows where the transformation comes first, else
        of inputs."""
        return self.model.hidden if self.model.transforms_first else self.model.width(layer)

    def sums_data(self, layer: int) -> bool:
        """Return whether the aggregation of `layer` has nothing trained below it: its result is then an input like any other, without a
        gradient."""
        return layer == 0 and not self.model.transforms_first

    def differentiable(self, layer: int) -> list[Op]:
        """Return the operations of `layer` through which gradients flow."""
        return [op for op in stages(self.model, layer) if op is not Op.AGGREGATE or not self.sums_data(layer)]

    def saved(self, layer: int) -> tuple[str, ...]:
        """Return the names of the tensors of a cell that the forward pass keeps for its gradient."""
        recurrent = ("gates", "state") * self.model.recurs(layer)
        if not self.recomputes:
            return ("sum", "dense", *recurrent)
        result = RESULTS[output_stage(self.model, layer)]
        return (*recurrent[1:], *["sum"] * (self.sums_data(layer) or result == "sum"), *["dense"] * (result == "dense"))

    def recomputed(self, layer: int) -> tuple[str, ...]:
        """Return the names of the tensors that are allocated when a cell is computed again (gradient checkpointing)."""
        return (*["sum"] * (not self.sums_data(layer)), "dense", *("gates", "state") * self.model.recurs(layer))
