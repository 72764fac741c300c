"""Lowering: placed snapshot groups to schedule rows. PSG and every REAL strategy differ only in placement and in `Reuse`.

Rows follow SCHEDULES.md. Layers are the outer loop, so that aggregation of snapshot s+1 overlaps the recurrence of snapshot s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.strategies.builder import NONE, Builder, Columns, Sink
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.groups import Placement
from chronoscale.strategies.rows import FP32, Rows
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.timer import Timer
from chronoscale.strategies.workload import Workload

SLOTS = 4  # order keys an iteration: two groups, then synchronisation


@dataclass(frozen=True, slots=True)
class Reuse:
    """What is reused. `snapshots`: difference maps in a group, three lanes (type I). `groups`: shared snapshots of a pair (type II)."""

    snapshots: bool = False
    groups: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """Where groups go; int64 [n] each but `keeps`.

    `shift` > 0: the group starts that many snapshots after the first group of its rank and iteration and shares the rest with it.
    `keeps` bool [n]: a later group still needs this one's snapshots. `inherits`, `carries`: device bytes and transformed rows of such
    snapshots, freed and given their gradient by this group's end. `gate`: handles that its first transfer waits for (-1: none).
    """

    unit: Ints
    rank: Ints
    order: Ints
    iteration: Ints
    shift: Ints
    keeps: NDArray[np.bool_]
    inherits: Ints
    carries: Ints
    gate: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """Handles int64 [n] of rows that others wait for; device bytes that a group's own snapshots hold, and rows transformed for them."""

    first: Ints
    last: Ints
    backward: Ints
    held: Ints
    transformed: Ints


class Lowering:
    """Emits groups of one workload with one kind of reuse."""

    def __init__(self, workload: Workload, reuse: Reuse, costs: CostModel) -> None:
        if workload.model.spatial != "gcn" or workload.model.evolves_weights:
            raise UserError(f"model '{workload.model.name}': snapshot groups are planned for GCN-based models with fixed weights")
        self.workload, self.reuse, self.rows = workload, reuse, Rows(workload)
        self.second = Lane.COMPUTE2 if reuse.snapshots else Lane.COMPUTE
        self.delta = (
            self._prefer_delta(costs)
            if reuse.snapshots and workload.hyper.group_size > 1
            else np.zeros(len(workload.snapshots.edges), bool)
        )

    def _prefer_delta(self, costs: CostModel) -> NDArray[np.bool_]:
        """For each snapshot: is its difference map cheaper than its full graph? (REAL §4.1.1, on effective changes.) Bool [T]."""
        snapshot = np.arange(len(self.workload.snapshots.edges))
        site: Columns = {"rank": np.zeros_like(snapshot), "order": 0}
        spent = []
        for delta in (False, True):
            timer = Timer(len(snapshot), costs)
            chosen = np.full(len(snapshot), delta)
            self._load(timer, site, snapshot, chosen, ~chosen, np.zeros(len(snapshot), bool), ())
            if delta and self.workload.model.layers > 1:
                timer.add(Op.RECONSTRUCT, Lane.COMPUTE, site, self.rows.reconstruct(snapshot))
            spent.append(timer.busy)
        cheaper: NDArray[np.bool_] = spent[1] < spent[0]
        cheaper[:1] = False
        return cheaper

    def _load(
        self,
        sink: Sink,
        site: Columns,
        snapshot: Ints,
        delta: NDArray[np.bool_],
        full: NDArray[np.bool_],
        features: NDArray[np.bool_],
        after: Sequence[Ints],
    ) -> tuple[Ints, Ints, Ints]:
        """Layer 1 up to its transformation, sites masked by form. Returns the transfers' handles, the bytes that stay allocated, and the
        rows transformed."""
        rows, width = self.rows, self.workload.model.inputs
        arrived, held, transformed = (
            np.full(len(snapshot), NONE, np.int64),
            np.zeros(len(snapshot), np.int64),
            np.zeros(len(snapshot), np.int64),
        )
        # Without reuse every snapshot brings its features, which go once they are aggregated; with it they stay with the group, and so
        # does the sum that increments go on from.
        passing = np.zeros(len(snapshot), np.int64) if self.reuse.snapshots else features * rows.features
        kept = 2 if self.reuse.snapshots else 1
        for is_delta, mask in ((False, full), (True, delta)):
            moved = rows.transfer(snapshot, is_delta, features)
            summed = rows.increment(snapshot) if is_delta else rows.aggregate(snapshot, width, kept)
            dense = rows.transform(summed["rows"], width)
            h2d = sink.add(Op.H2D, Lane.H2D, site, moved, where=mask, after=after)
            op = Op.INCREMENT if is_delta else Op.AGGREGATE
            aggregated = sink.add(op, Lane.COMPUTE, site, summed, {"free": passing}, where=mask, after=(h2d,))
            sink.add(Op.TRANSFORM, self.second, site, dense, where=mask, after=(aggregated,))
            arrived = np.where(mask, h2d, arrived)
            held += mask * (moved["alloc"] + summed["alloc"] + dense["alloc"] - passing)
            transformed += mask * dense["rows"]
        return arrived, held, transformed

    def emit(self, sink: Sink, at: Sites) -> Emitted:
        """All rows of one group a site, forward and backward."""
        rows, model, size = self.rows, self.workload.model, self.workload.hyper.group_size
        start = self.workload.group_start(at.unit)
        site: Columns = {"rank": at.rank, "order": at.order, "iteration": at.iteration, "unit": at.unit}
        first = np.full(len(start), NONE, np.int64)
        held, active, transformed = (np.zeros(len(start), np.int64) for _ in range(3))
        below: list[Ints] = []
        for layer in range(model.layers):
            states: list[Ints] = []
            for step in range(size):
                snapshot, here = start + step, {**site, "step": step, "layer": layer}
                own = ~((at.shift > 0) & (step + at.shift < size))
                delta = own & self.delta[snapshot] & (step > 0)
                if layer == 0:
                    features = np.full(len(start), not self.reuse.snapshots or step == 0)
                    after = [np.where(first < 0, at.gate, NONE), *([] if self.reuse.snapshots else states[-1:])]
                    arrived, stored, dense_rows = self._load(sink, here, snapshot, delta, own & ~delta, features, after)
                    first, held, transformed = np.where(first < 0, arrived, first), held + stored, transformed + dense_rows
                else:
                    if layer == 1:
                        rebuilt = rows.reconstruct(snapshot)
                        sink.add(Op.RECONSTRUCT, Lane.COMPUTE, here, rebuilt, where=delta)
                        held += delta * rebuilt["alloc"]
                    summed, dense = rows.aggregate(snapshot, model.hidden), rows.transform(np.full_like(snapshot, rows.nodes), model.hidden)
                    aggregated = sink.add(Op.AGGREGATE, Lane.COMPUTE, here, summed, after=(below[step],))
                    sink.add(Op.TRANSFORM, self.second, here, dense, after=(aggregated,))
                    active += summed["alloc"] + dense["alloc"]
                cell = rows.recurrence()
                states.append(sink.add(Op.TEMPORAL, self.second, here, cell))
                active += cell["alloc"]
            below = states
        freed = active + at.inherits + held * ~at.keeps
        carried = at.carries + transformed * ~at.keeps
        backward = sink.add(Op.BACKWARD, Lane.COMPUTE, site, rows.backward(start, carried), {"free": freed}, after=(below[-1],))
        return Emitted(first, below[-1], backward, held, transformed)


def lower(name: str, workload: Workload, placement: Placement, reuse: Reuse, costs: CostModel) -> Schedule:
    """The schedule of one epoch: groups as placed, gradients all-reduced after every iteration (REAL eq. 10)."""
    if reuse.groups:
        placement = placement.in_time_order()
    lowering = Lowering(workload, reuse, costs)
    builder = Builder(name, placement.ranks, resident=4 * workload.model.parameters * FP32)  # parameters, gradients, two moments
    shift = shifts(workload, placement) if reuse.groups else np.zeros_like(placement.slot)
    lead = placement.first()
    keeps = np.zeros(len(lead), bool)
    keeps[lead[shift > 0]] = True
    done = Emitted(*(np.full(len(lead), NONE, np.int64) for _ in range(5)))
    for slot in (0, 1):
        g = np.flatnonzero(placement.slot == slot)
        inherits, carries = (np.where(shift[g] > 0, column[lead[g]], 0) for column in (done.held, done.transformed))
        order = placement.iteration[g] * SLOTS + slot
        open_ = np.full(len(g), NONE, np.int64)  # linked below: the gate of one iteration is the end of the last
        sites = Sites(g, placement.rank[g], order, placement.iteration[g], shift[g], keeps[g], inherits, carries, open_)
        rows = lowering.emit(builder, sites)
        for field in fields(Emitted):
            getattr(done, field.name)[g] = getattr(rows, field.name)
    _synchronise(builder, placement, workload.model.parameters, reuse, done)
    return builder.finish()


def shifts(workload: Workload, placement: Placement) -> Ints:
    """Snapshots between the starts of a pair's groups where they overlap, else 0; int64 [groups], set on the second group."""
    apart = (np.arange(len(placement.slot)) - placement.first()) * workload.hyper.stride
    return np.where((placement.slot == 1) & (apart > 0) & (apart < workload.hyper.group_size), apart, 0)


def _synchronise(builder: Builder, at: Placement, parameters: int, reuse: Reuse, done: Emitted) -> None:
    """All-reduce and optimiser step of every rank and iteration, and what the next iteration's first transfer waits for."""
    ranks, iterations = at.ranks, at.iterations
    rank, iteration = np.tile(np.arange(ranks), iterations), np.repeat(np.arange(iterations), ranks)
    site: Columns = {"rank": rank, "iteration": iteration, "order": iteration * SLOTS + SLOTS - 1}
    ready = np.full(ranks * iterations, NONE, np.int64)
    for slot in (0, 1):
        g = np.flatnonzero(at.slot == slot)
        ready[at.site[g]] = done.backward[g]
    if ranks > 1:
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, {"collective": iteration, "bytes": parameters * FP32}, after=(ready,))
    moved = 7 * parameters * FP32  # Adam: reads parameter, gradient, two moments; writes three
    update = {"bytes": moved, "rows": parameters, "flops": 10 * parameters}
    step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, update, after=(ready,))
    previous = at.previous()
    has = previous >= 0
    if reuse.snapshots:  # the next group's first transfer overlaps this one's backward pass
        gate = np.where(has, done.last[previous], NONE)
    else:  # nothing overlaps
        same = has & (at.iteration[previous] == at.iteration)
        earlier = np.where(at.iteration > 0, step[np.maximum(at.site - ranks, 0)], NONE)
        gate = np.where(same, done.backward[previous], earlier)
    builder.link(done.first, gate)
