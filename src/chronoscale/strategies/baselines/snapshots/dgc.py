"""DGC: partition by spatio-temporal chunks (Chen, Li, Wu; PACMMOD 2023), modelled from statistics for simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.baselines.snapshots.vertex_shares import (
    BackwardWork,
    GroupBatches,
    ShareWork,
    expected_distinct,
    split_counts,
)
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.workload import ModelShape, Workload

GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class DGC(SnapshotStrategy):
    """DGC, modelled for simulation: planner whose ranks each train one chunk of vertices in every range of snapshots, and exchange boundary
    features and hidden states.

    DGC's partitioner (graph coarsening) is not run. A model of its cut stands in for it, and these are assumptions, not measurements:

    - chunks live for `span` snapshots of a group, then the cut is made anew;
    - a rank's boundary is `cut` (1 - 1/P) of its edges; their remote ends are distinct as by uniform draws among other ranks' active nodes;
    - chunk sizes spread evenly over 1 ± `skew` of the mean, vertices and edges alike: partition quality goes before balance (REAL §1);
    - at a new range the vertices whose edges changed (statistics) are placed anew and move with probability 1 - 1/P; their hidden states go
      with them. Evolving weights are replicated: they have no hidden states to move.

    Chunk fusion and stale aggregation are left out: the first changes no volume, the second changes the mathematics.
    """

    span: int = 2
    cut: float = 0.2
    skew: float = 0.25

    name = "dgc"
    title = "DGC (modelled)"
    kind = "modelled"
    source = "Chen, Li, Wu; PACMMOD 2023; REAL §1, Table 1"
    summary = "Each GPU trains chunks of vertices over a few snapshots; boundary features and hidden states are exchanged."
    executes = False
    everywhere = True

    def __post_init__(self) -> None:
        if self.span < 1 or not 0 <= self.cut <= 1 or not 0 <= self.skew < 1:
            raise UserError(f"dgc: span at least 1, cut in 0..1 and skew in 0..1 expected, got {self.span}, {self.cut}, {self.skew}")

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch of DGC. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        workload.snapshots  # noqa: B018 (refuses other families)
        if ranks < 1:
            raise UserError(f"at least one GPU is needed, got {ranks}")
        return _Chunks(self, workload, ranks).plan()

    def weights(self, ranks: int, iterations: int, span: int) -> Floats:
        """Return modelled sizes of DGC's vertex chunks, one a rank, as shares of all vertices, float64 [iterations, ranks]: spread evenly
        over 1 ± skew of the mean, and drawn anew for every range of snapshots (`span`, its number)."""
        place = np.arange(ranks)[None, :] + ranks * (np.arange(iterations)[:, None] * 7 + span)
        size = 1 + self.skew * (2 * (place * GOLDEN % 1) - 1)
        shares: Floats = size / size.sum(1, keepdims=True)
        return shares


class _Chunks:
    """A plan of DGC while it is built; columns have one entry a (rank, iteration), iteration by iteration, int64 [iterations * ranks]."""

    def __init__(self, model: DGC, workload: Workload, ranks: int) -> None:
        self.dgc = model
        self.workload = workload
        self.ranks = ranks
        self.shape: ModelShape = workload.model
        self.batches, self.work = GroupBatches(workload, ranks), ShareWork(workload.model, kernels := kernels_of(workload))
        self.builder = Builder(model.name, ranks, 4 * self.shape.parameters * FP32, model.kind, kernels=kernels)
        iterations = len(self.batches.first)
        iteration = np.repeat(np.arange(iterations), ranks)
        unit = np.repeat(self.batches.first, ranks)
        self.site: Columns = {"rank": np.tile(np.arange(ranks), iterations), "iteration": iteration, "order": iteration, "unit": unit}
        self.sites = len(iteration)
        self.iterations = iterations
        self.meetings = 0

    def plan(self) -> Schedule:
        """Add the rows of all iterations and return the schedule."""
        size, span = self.workload.hyper.group_size, self.dgc.span
        ranges = [range(start, min(start + span, size)) for start in range(0, size, span)]
        last = np.full(self.sites, NONE, np.int64)
        first = None
        passes = []
        for number, steps in enumerate(ranges):
            weight = self.dgc.weights(self.ranks, self.iterations, number)
            owed, gradients = BackwardWork.none(self.sites), np.zeros(self.sites, np.int64)
            handed = None
            if number and not self.shape.evolves_weights:
                states = self._state_bytes(steps[0], weight)
                handed = self._add_exchange(steps[0], self.shape.layers - 1, states, last)
                gradients = gradients + states
            for step in steps:
                loaded, last, halo = self._add_step(step, weight, owed, handed)
                first, handed, gradients = loaded if first is None else first, None, gradients + halo
            passes.append((steps[0], owed, gradients))
        backward = last
        for number, (step, owed, gradients) in reversed(list(enumerate(passes))):
            here: Columns = {**self.site, "step": np.full(self.sites, step)}
            backward = self.builder.add(Op.BACKWARD, Lane.COMPUTE, here, owed.columns(self.shape.hidden), after=(backward,))
            if self.shape.layers > 1 or self.shape.transforms_first or (number and not self.shape.evolves_weights):
                backward = self._add_exchange(step, -1, gradients, backward)
        if self.ranks > 1:
            reduced = {"bytes": self.shape.parameters * FP32}
            backward = self.builder.add(Op.ALLREDUCE, Lane.COMM, self.site, self._next_collective(), reduced, after=(backward,))
        updated = self.builder.add(Op.OPTIMIZE, Lane.COMPUTE, self.site, self.work.optimize(), after=(backward,))
        assert first is not None
        before = np.concatenate([np.full(self.ranks, NONE, np.int64), updated[: -self.ranks]])
        self.builder.link(first, before)
        return self.builder.finish()

    def _add_step(self, step: int, weight: Floats, owed: BackwardWork, handed: Ints | None) -> tuple[Ints, Ints, Ints]:
        """Add the forward rows of one snapshot of every group.

        Returns handles of the transfer and of the last row, and the bytes of boundary rows that have a gradient.
        """
        stats = self.workload.snapshots
        model = self.shape
        work = self.work
        edges = split_counts(self.batches.total(stats.edges, step), weight).ravel()
        rows = split_counts(self.batches.groups * stats.num_nodes, weight).ravel()
        active = np.repeat(self.batches.total(stats.nodes, step), self.ranks)
        remote = 1 - 1 / self.ranks
        crossing = np.floor(edges * (self.dgc.cut * remote)).astype(np.int64)
        halo = expected_distinct(np.floor(active * remote).astype(np.int64), crossing)
        here: Columns = {**self.site, "step": np.full(self.sites, step)}
        loaded = work.load(rows, edges + rows, rows)
        ready = arrived = self.builder.add(Op.H2D, Lane.H2D, here, loaded)
        owed.add(loaded, 0)
        gradients = np.zeros(self.sites, np.int64)
        for layer in range(model.layers):
            at: Columns = {**here, "layer": np.full(self.sites, layer)}
            width, learns = model.width(layer), layer > 0
            if model.evolves_weights:
                self._add_evolution(at, width, ready, owed)
            if model.transforms_first:
                dense = work.transform(rows, width)
                ready = self.builder.add(Op.TRANSFORM, Lane.COMPUTE, at, dense, after=(ready,))
                owed.add(dense, 2 if learns else 1)
                width, learns = model.hidden, True
            boundary = halo * width * FP32
            arrival = self._add_exchange(step, layer, boundary, ready, boundary)
            gradients = gradients + boundary * learns
            summed = work.aggregate(rows, edges + rows, width)
            ready = self.builder.add(Op.AGGREGATE, Lane.COMPUTE, at, summed, {"free": boundary * (self.ranks > 1)}, after=(ready, arrival))
            owed.add(summed, int(learns))
            if not model.transforms_first:
                dense = work.transform(rows, width)
                ready = self.builder.add(Op.TRANSFORM, Lane.COMPUTE, at, dense)
                owed.add(dense, 2 if learns else 1)
            if model.recurs(layer) and not model.evolves_weights:
                cell = work.recurrence(rows, model.hidden)
                waits = (handed,) if handed is not None and layer == model.layers - model.recurrences else ()
                ready = self.builder.add(Op.TEMPORAL, Lane.COMPUTE, at, cell, after=waits)
                owed.add(cell, 2)
        return arrived, ready, gradients

    def _add_evolution(self, at: Columns, width: int, ready: Ints, owed: BackwardWork) -> None:
        """Add the rows that compute the next weights of every group, on every rank; EvolveGCN-H gathers its snapshot's highest-scored rows
        first."""
        groups = np.repeat(self.batches.groups, self.ranks)
        if self.shape.summarises and self.ranks > 1:
            moved = {"bytes": -(-groups * self.shape.hidden // self.ranks) * width * FP32}
            ready = self.builder.add(Op.ALLGATHER, Lane.COMM, at, self._next_collective(), moved, after=(ready,))
        cell = self.work.recurrence(groups * self.shape.hidden, width)
        self.builder.add(Op.TEMPORAL, Lane.COMPUTE, at, cell, after=(ready,))
        owed.add(cell, 2)

    def _state_bytes(self, step: int, weight: Floats) -> Ints:
        """Return the bytes of hidden states that a rank receives at a new range: those of vertices that were placed anew and come from
        another rank."""
        changed = split_counts(self.batches.total(self.workload.snapshots.changed_nodes, step), weight).ravel()
        values = self.shape.recurrences * self.shape.depth * self.shape.hidden * self.shape.states
        moved: Ints = np.floor(changed * (1 - 1 / self.ranks)).astype(np.int64) * (values * FP32)
        return moved

    def _add_exchange(self, step: int, layer: int, size: Ints, after: Ints, alloc: Ints | int = 0) -> Ints:
        """Add an all-to-all of all ranks and return its handles; on one rank add nothing and return `after`."""
        if self.ranks == 1:
            return after
        same = np.zeros_like(size)
        row: Columns = {"bytes": size, "step": same + step, "layer": same + layer, "alloc": same + alloc}
        return self.builder.add(Op.ALLTOALL, Lane.COMM, self.site, self._next_collective(), row, after=(after,))

    def _next_collective(self) -> Columns:
        """Return the columns that give every iteration a new collective id."""
        self.meetings += 1
        return {"collective": self.meetings * self.iterations + self.site["iteration"]}
