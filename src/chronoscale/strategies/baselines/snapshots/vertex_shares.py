"""Shares of a rank where vertices are divided, not groups: counts and row descriptors from statistics alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.workload import ModelShape, Workload


@dataclass(frozen=True, slots=True)
class GroupBatches:
    """Snapshot groups that an iteration trains side by side in modelled plans that divide vertices over ranks (DGC, DynaHB): `ranks *
    groups_per_rank` in time order, as many as PSG trains between optimiser steps.

    Methods return int64 [iterations].
    """

    workload: Workload
    ranks: int

    @property
    def first(self) -> Ints:
        """The number of the first snapshot group of each iteration, int64 [iterations]."""
        return np.arange(0, self.workload.groups, self.ranks * self.workload.hyper.groups_per_rank)

    @property
    def groups(self) -> Ints:
        """How many snapshot groups each iteration trains, int64 [iterations]."""
        return np.append(self.first[1:], self.workload.groups) - self.first

    def total(self, column: Ints, step: int) -> Ints:
        """Return the sum of a statistic (`column`, int64 [snapshots], such as edges) over the snapshots at place `step` of an iteration's
        groups, int64 [iterations]."""
        each = column[self.workload.group_start(np.arange(self.workload.groups)) + step]
        return np.asarray(np.add.reduceat(each, self.first), np.int64)


def split_counts(total: Ints, weight: Floats) -> Ints:
    """Divide counts of vertices or edges (int64 [n]) over ranks by weights (float64 [ranks] or [n, ranks], which sum to 1), for modelled
    plans: int64 [n, ranks], whose rows add up to `total` exactly."""
    ends = np.cumsum(np.broadcast_to(weight, (len(total), weight.shape[-1])), axis=1)
    ends[:, -1] = 1
    counts: Ints = np.floor(ends * total[:, None]).astype(np.int64)
    counts[:, 1:] -= counts[:, :-1].copy()
    return counts


def expected_distinct(pool: Ints, draws: Ints) -> Ints:
    """Estimate how many distinct vertices `draws` uniform draws from `pool` meet, for remote rows in DGC's and DynaHB's plans.

    Int64 arrays of one shape; rounded down: M (1 - (1 - 1/M)^k) (occupancy), at most `pool` and `draws`.
    """
    m = np.maximum(pool, 2).astype(np.float64)
    expected = m * -np.expm1(draws * np.log1p(-1 / m))
    return np.minimum(np.floor(expected).astype(np.int64), np.minimum(pool, draws))


@dataclass(frozen=True, slots=True)
class ShareWork:
    """Work of a rank's share of a snapshot's vertices, for planners of DGC and DynaHB: methods return a row's columns, int64 [n], from
    `rows` vertices and `edges` stored entries with self-loops, int64 [n] both.

    The bytes that a row moves are those counted of groups that are executed (`kernels`).
    """

    model: ModelShape
    kernels: Kernels

    def load(self, rows: Ints, edges: Ints, features: Ints) -> Columns:
        """Return the columns of the planned H2D row that sends a share's adjacency and the input features of `features` vertices."""
        empty, entry = WeightedCSR.nbytes_of(0, 0), WeightedCSR.nbytes_of(0, 1) - WeightedCSR.nbytes_of(0, 0)
        row = WeightedCSR.nbytes_of(1, 0) - empty
        moved = empty + row * rows + entry * (edges - rows) + features * self.model.inputs * FP32
        return {"nodes": features, "edges": edges, "rows": rows, "bytes": moved, "alloc": moved}

    def batch(self, rows: tuple[Ints, ...], edges: tuple[Ints, ...], features: Ints) -> Columns:
        """Return the columns of the planned H2D row that sends what a batch reads of a snapshot: an adjacency for each layer, and the input
        features of `features` vertices."""
        parts = [self.load(own, ends, 0 * own) for own, ends in zip(rows, edges, strict=True)]
        moved = sum((part["bytes"] for part in parts), features * self.model.inputs * FP32)
        return {"nodes": features, "edges": sum(edges, 0 * features), "rows": rows[0], "bytes": moved, "alloc": moved}

    def aggregate(self, rows: Ints, edges: Ints, width: int) -> Columns:
        """Return the columns of the planned AGGREGATE row that sums over in-neighbours; attention moves three more values an edge (score,
        softmax, weight)."""
        scores = 3 * FP32 * edges * (self.model.spatial == "gat")
        return self._work(Op.AGGREGATE, edges, rows, width, 2 * edges * width + 3 * scores, rows * width * FP32)

    def transform(self, rows: Ints, width: int) -> Columns:
        """Return the columns of the planned TRANSFORM row, the dense transformation of `width` values a vertex to the hidden width."""
        hidden = self.model.hidden
        return self._work(Op.TRANSFORM, 0 * rows, rows, width, 2 * rows * width * hidden, rows * hidden * FP32)

    def recurrence(self, rows: Ints, width: int) -> Columns:
        """Return the columns of the planned TEMPORAL row, one recurrent step: on `rows` vertices of the hidden width, or on the columns of
        evolving weights."""
        gates, across = self.model.gates, self.model.depth * width
        saved = rows * width * self.model.stepped * FP32
        flops = rows * across * (4 * gates * width + 4 * gates)
        return self._work(Op.TEMPORAL, 0 * rows, rows, across, flops, saved)

    def optimize(self) -> Columns:
        """Return the columns of the planned OPTIMIZE row, one optimiser step."""
        count = np.full(1, self.model.parameters, np.int64)
        return {"rows": count, "flops": 10 * count}

    def _work(self, op: Op, edges: Ints, rows: Ints, width: int, flops: Ints, alloc: Ints) -> Columns:
        """Return the columns of a row of computation, with the bytes that it moves."""
        columns = _columns(edges, rows, width, flops, alloc)
        return {**columns, "bytes": self.kernels.moved(op, Lane.COMPUTE, {**columns, "step": 1})}


def _columns(edges: Ints, rows: Ints, width: int, flops: Ints, alloc: Ints) -> Columns:
    """Return work columns, int64 [n] each."""
    return {"nodes": rows, "edges": edges, "rows": rows, "width": np.zeros_like(rows) + width, "flops": flops, "alloc": alloc}


@dataclass(slots=True)
class BackwardWork:
    """Work that a planned backward pass has to do for the forward rows added so far, and the bytes that it frees; int64 [n] each. For
    modelled plans (DGC, DynaHB), which have one backward row a batch.

    Dense work counts twice (inputs and weights), or once where the input is data; a transposed aggregation counts wherever its input has a
    gradient.
    """

    edges: Ints
    rows: Ints
    bytes: Ints
    flops: Ints
    free: Ints

    @classmethod
    def none(cls, sites: int) -> BackwardWork:
        """Return the backward work of no rows, to which forward rows are added; zeros [sites]."""
        return cls(*(np.zeros(sites, np.int64) for _ in range(5)))

    def add(self, forward: Columns, times: int) -> None:
        """Add the backward work of a forward row (its columns), `times` the forward work (0: it has no gradient, and only its memory is
        freed)."""
        if times:
            self.edges, self.rows = self.edges + forward["edges"], self.rows + forward["rows"]
            self.bytes, self.flops = self.bytes + times * forward["bytes"], self.flops + times * forward["flops"]
        self.free = self.free + forward["alloc"]

    def columns(self, width: int) -> Columns:
        """Return the columns of the planned BACKWARD row: all work added so far."""
        columns = _columns(self.edges, self.rows, width, self.flops, 0 * self.rows)
        return {**columns, "bytes": self.bytes, "free": self.free}
