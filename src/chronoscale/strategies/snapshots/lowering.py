"""Lowering of placed snapshot groups to rows; PSG, BLAD and every REAL strategy differ only in placement and in `Reuse`.

Rows follow SCHEDULES.md. Layers are the outer loop, so that aggregation of snapshot s+1 overlaps the recurrence of snapshot s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Builder, Columns, Sink
from chronoscale.strategies.planning.timer import Timer
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.forms import Forms, choose_forms, uniform_forms
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Rows
from chronoscale.strategies.snapshots.targets import pair_bytes, pair_flops, predicted_snapshots
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.snapshots.variants import AggregateVariant, BackwardVariant, Form, TemporalVariant
from chronoscale.strategies.workload import Workload

CARRIED = "CARRIED"  # in the counts of kernels: what one snapshot's first layer adds to the gradient pass that ends it
SLOTS = 6  # order keys an iteration: two groups forward, their backward passes where those come later, synchronisation


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a planner of whole snapshot groups reuses (REAL §4). snapshots: what consecutive snapshots of a group share, so that only
    differences are sent and computed, in three lanes (type I). groups: snapshots that two groups on a rank share (type II).

    pipeline: nothing is reused; the two groups of a rank are in flight at once, aggregation of one beside the recurrence of the other, and
    a copy on the device between the stages (BLAD).

    Where every snapshot has features of its own (`SnapshotTask.varies`), type I reuses adjacencies alone: features are sent with each
    snapshot, and aggregated anew. Type II reuses all that it does else: both groups read the same features of a snapshot.
    """

    snapshots: bool = False
    groups: bool = False
    pipeline: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GroupSites:
    """Snapshot groups whose rows a planner (PSG, BLAD, REAL) adds at once, and where they go; int64 [n] each but `keeps`.

    unit: the group's number. shift > 0: the group starts that many snapshots after the first group of its rank and iteration and shares the
    others with it. keeps bool [n]: a later group still needs this one's snapshots. inherits, rows, edges, kernels, moved: device bytes,
    transformed rows and attended edges of such snapshots, freed and given their gradient by this group's end, and that gradient's kernels
    and bytes. gate: handles that its first transfer waits for (-1: none).
    """

    unit: Ints
    rank: Ints
    order: Ints
    iteration: Ints
    shift: Ints
    keeps: NDArray[np.bool_]
    inherits: Ints
    rows: Ints
    edges: Ints
    kernels: Ints
    moved: Ints
    gate: Ints


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """Planned rows of snapshot groups (PSG, BLAD, REAL): handles and counts on which later groups' rows depend, int64 [n] each.

    first, last, backward: handles of its first transfer, last forward and backward row; reads: the first row that reads parameters where no
    aggregation comes before it. held: device bytes of its own snapshots; rows, edges: transformed rows and attended edges of these;
    kernels, moved: of their gradient.
    """

    first: Ints
    reads: Ints
    last: Ints
    backward: Ints
    held: Ints
    rows: Ints
    edges: Ints
    kernels: Ints
    moved: Ints


@dataclass(slots=True)
class _FirstLayer:
    """Rows of the first layer of a snapshot: handles of its transfer and aggregation, bytes that stay allocated, and the counts of
    `GroupRows`.
    """

    arrived: Ints
    reads: Ints
    ready: Ints
    held: Ints
    rows: Ints
    edges: Ints
    kernels: Ints
    moved: Ints


class Lowering:
    """Planner's step that turns placed snapshot groups into schedule rows, for PSG, BLAD and REAL: of one workload, with one kind of reuse.

    forms: how each snapshot is sent; None: as `costs` makes it cheapest.
    """

    def __init__(self, workload: Workload, reuse: Reuse, costs: CostModel, forms: Forms | None = None) -> None:
        self.workload = workload
        self.reuse = reuse
        self.rows = Rows(workload)
        self.varies = task_of(workload.hyper.task).varies
        self.kernels = kernels_of(workload)
        self.second = Lane.COMPUTE2 if reuse.snapshots or reuse.pipeline else Lane.COMPUTE
        self.forms = forms or uniform_forms(len(workload.snapshots.edges))
        if forms is None and reuse.snapshots and workload.hyper.group_size > 1:
            self.forms = choose_forms(workload, costs, self._add_snapshots)

    def _add_snapshots(self, timer: Timer, forms: Forms) -> None:
        """Add the rows of every snapshot by itself in the given forms, without features, to compare the forms by.

        The first snapshot has no predecessor and so one form; the last ones are only predicted.
        """
        self.forms = forms
        snapshot = np.arange(len(forms.form))
        form, read = np.where(snapshot > 0, forms.form, np.int8(Form.FULL)), snapshot < len(snapshot) - self.workload.hyper.horizon
        none = np.zeros(len(snapshot), bool)
        self._add_first_layer(timer, {"rank": np.zeros_like(snapshot), "order": 0}, snapshot, form, read, none, none, ())

    @property
    def incremented(self) -> bool:
        """Whether any snapshot's aggregates are computed from the last ones by their differences, so that all are saved for it."""
        return self.reuse.snapshots and bool((self.forms.form == Form.DELTA).any())

    def _features_stay(self, keeps: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether input features stay on the device with their group, not until they are aggregated; bool [n].

        Those of all snapshots do, sent once a group, and those of each that a later group (`keeps`: there is one) summarises once more.
        """
        if self.varies:
            return keeps & bool(self.workload.model.summarises)
        return np.full_like(keeps, self.reuse.snapshots)

    def _temporal_variant(self, step: int) -> TemporalVariant:
        """Return which implementation runs a recurrent step."""
        first = step == 0 and not self.workload.model.evolves_weights
        if self.reuse.pipeline:
            return TemporalVariant.FIRST_BESIDE if first else TemporalVariant.ON_BESIDE
        return TemporalVariant.FIRST if first else TemporalVariant.ON

    def _add_first_layer(
        self,
        sink: Sink,
        site: Columns,
        snapshot: Ints,
        form: NDArray[np.int8],
        own: NDArray[np.bool_],
        features: NDArray[np.bool_],
        stay: NDArray[np.bool_],
        after: Sequence[Ints],
    ) -> _FirstLayer:
        """Add the first layer of the sites' `own` snapshots, up to what later snapshots and groups can reuse.

        features, stay: bool [n], input features come with the snapshot, and stay after they were aggregated.
        """
        rows, model = self.rows, self.workload.model
        none, zero = np.full(len(snapshot), NONE, np.int64), np.zeros(len(snapshot), np.int64)
        result = _FirstLayer(none, none, none, zero, zero, zero, zero, zero)
        everything = np.full(len(snapshot), rows.nodes)
        # What increments go on from stays with the group: its features, and the sum. Attention aggregates transformed features; the weight
        # gradient needs the raw ones.
        passing = zero if model.transforms_first else features * ~stay * rows.features
        copies = 2 if self.reuse.snapshots and not self.varies else 1
        for kind in Form:
            mask = own & (form == kind)
            if not mask.any():
                continue
            moved = rows.transfer(snapshot, kind, self.forms.tracked, features)
            arrived = h2d = sink.add(Op.H2D, Lane.H2D, site, moved, where=mask, after=after)
            held = moved["alloc"] - passing
            edges = zero
            dense = zero
            if kind is not Form.FULL and self.forms.tracked:
                rebuilt = rows.rebuild(snapshot)
                sink.add(Op.RECONSTRUCT, Lane.COMPUTE, site, rebuilt, where=mask, after=(h2d,))
                held = held + rebuilt["alloc"]
            if model.transforms_first:
                projected = rows.transform(everything, model.inputs)
                arrived = sink.add(Op.TRANSFORM, self.second, site, projected, where=mask & features, after=(h2d,))
                held, dense = held + features * projected["alloc"], features * rows.nodes
                result.reads = np.where(mask, arrived, result.reads)
            incremental = kind is Form.DELTA
            summed = rows.increment(snapshot) if incremental else rows.aggregate(snapshot, model.inputs, copies)
            op, free = (Op.INCREMENT if incremental else Op.AGGREGATE), {} if model.evolves_weights else {"free": passing}
            twice = {"variant": AggregateVariant.TWICE} if self.incremented and not (incremental or model.transforms_first) else {}
            ready = sink.add(op, Lane.COMPUTE, site, summed, twice, free, where=mask, after=(h2d, arrived))
            held = held + summed["alloc"]
            if model.transforms_first:
                edges = summed["edges"]
            elif not model.evolves_weights:
                product = rows.transform(summed["rows"], model.inputs, incremental)
                ready = sink.add(Op.TRANSFORM, self.second, site, product, where=mask, after=(ready,))
                held, dense = held + product["alloc"], product["rows"]
            result.arrived, result.ready = np.where(mask, h2d, result.arrived), np.where(mask, ready, result.ready)
            result.held, result.rows, result.edges = result.held + mask * held, result.rows + mask * dense, result.edges + mask * edges
            result.kernels = result.kernels + mask * self.kernels.count(CARRIED, partial=incremental, features=features)
            sizes = {name: summed[name] for name in ("nodes", "rows", "edges")}
            result.moved = result.moved + mask * self.kernels.bytes(CARRIED, partial=incremental, features=features, **sizes)
        return result

    def emit(self, sink: Sink, at: GroupSites) -> GroupRows:
        """Add all rows of one snapshot group at each site to a builder or timer, forward and backward pass."""
        rows = self.rows
        model = self.workload.model
        size = self.workload.hyper.group_size
        start = self.workload.group_start(at.unit)
        site: Columns = {"rank": at.rank, "order": at.order, "iteration": at.iteration, "unit": at.unit}
        first, reads = np.full(len(start), NONE, np.int64), np.full(len(start), NONE, np.int64)
        held, active, carried, attended, fresh, kernels, moved = (np.zeros(len(start), np.int64) for _ in range(7))
        everything = np.full(len(start), rows.nodes)
        stay = self._features_stay(at.keeps)
        below: list[Ints] = []
        for layer in range(model.layers):
            outputs: list[Ints] = []
            ready = np.full(len(start), NONE, np.int64)
            for step in range(size):
                snapshot, here = start + step, {**site, "step": step, "layer": layer}
                features = np.zeros(len(start), bool)
                if layer == 0:
                    own = ~((at.shift > 0) & (step + at.shift < size))
                    form = np.where(step > 0, self.forms.form[snapshot], np.int8(Form.FULL))
                    features = own & (self.varies or not self.reuse.snapshots or step == 0)
                    waits = [ready] if self.reuse.pipeline else [] if self.reuse.snapshots else outputs[-1:]
                    gate = np.where(first < 0, at.gate, NONE)
                    loaded = self._add_first_layer(sink, here, snapshot, form, own, features, stay, [gate, *waits])
                    ready = loaded.ready
                    first, reads = np.where(first < 0, loaded.arrived, first), np.where(reads < 0, loaded.reads, reads)
                    held = held + loaded.held
                    carried, attended = carried + loaded.rows, attended + loaded.edges
                    fresh = fresh + own * rows.edges(snapshot)
                    kernels, moved = kernels + loaded.kernels, moved + loaded.moved
                else:
                    summed, dense = rows.aggregate(snapshot, model.hidden), rows.transform(everything, model.hidden)
                    ready = below[step]
                    if model.transforms_first:
                        ready = sink.add(Op.TRANSFORM, self.second, here, dense, after=(ready,))
                    ready = sink.add(Op.AGGREGATE, Lane.COMPUTE, here, summed, {"variant": AggregateVariant.TRACKED}, after=(ready,))
                    if not model.transforms_first and not model.evolves_weights:
                        ready = sink.add(Op.TRANSFORM, self.second, here, dense, after=(ready,))
                    active += summed["alloc"] + (0 if model.evolves_weights else dense["alloc"])
                if not model.recurs(layer):
                    outputs.append(ready)
                    continue
                if self.reuse.pipeline:
                    copied = rows.copy()
                    ready = sink.add(Op.COPY, self.second, here, copied, after=(ready,))
                    active += copied["alloc"]
                cell = rows.recurrence(layer)
                output = sink.add(Op.TEMPORAL, self.second, here, cell, {"variant": self._temporal_variant(step)}, after=(ready,))
                active += cell["alloc"]
                if model.evolves_weights:
                    product = rows.transform(everything, model.width(layer))
                    output = sink.add(Op.TRANSFORM, self.second, here, product, {"free": features * ~stay * rows.features}, after=(ready,))
                    active += product["alloc"]
                outputs.append(output)
            below = outputs
        freed = active + at.inherits + held * ~at.keeps
        gradient = rows.backward(start, at.rows + carried * ~at.keeps, at.edges + attended * ~at.keeps)
        decoded = pair_flops(self.workload, predicted_snapshots(self.workload, at.unit)).sum(axis=1)
        gradient["flops"] = gradient["flops"] + decoded
        later: Columns = {"order": at.order + 2} if self.reuse.pipeline else {}
        beside = BackwardVariant.BESIDE if self.reuse.pipeline else BackwardVariant.ALONE
        loaded_snapshots = np.where(at.shift > 0, at.shift, size)
        launched = self.kernels.count(Op.BACKWARD.name, own=loaded_snapshots) + at.kernels + kernels * ~at.keeps
        group_bytes = self.kernels.bytes(Op.BACKWARD.name, own=loaded_snapshots, nodes=rows.nodes, edges=gradient["edges"], fresh=fresh)
        ends: Columns = {
            "free": freed + gradient["alloc"],
            "kernels": launched,
            "bytes": group_bytes + at.moved + moved * ~at.keeps,
            "variant": beside,
        }
        backward = sink.add(Op.BACKWARD, Lane.COMPUTE, site, gradient, ends, later, after=(below[-1],))
        return GroupRows(first, reads, below[-1], backward, held, carried, attended, kernels, moved)


def lower(name: str, workload: Workload, placement: Placement, reuse: Reuse, costs: CostModel, forms: Forms | None = None) -> Schedule:
    """Turn a placement of snapshot groups into the schedule of one epoch, for PSG, BLAD and REAL: gradients are all-reduced after every
    iteration (REAL eq. 10).

    name: the strategy's. With reuse between a group's snapshots these are sent in `forms`, or, None, as `costs` makes it cheapest. Raises
    UserError for increments of features that differ from snapshot to snapshot.
    """
    if reuse.groups:
        placement = placement.in_time_order()
    lowering = Lowering(workload, reuse, costs, forms)
    if lowering.varies and lowering.incremented:
        why = f"training.task: '{workload.hyper.task}' gives each other features"
        raise UserError(f"strategy '{name}' increments what it has aggregated from snapshot to snapshot, and {why}; send edge maps")
    goals = predicted_snapshots(workload, np.arange(len(placement.rank)))
    targets = pair_bytes(workload, np.repeat(placement.rank, goals.shape[1]), goals.ravel())
    resident = 4 * workload.model.parameters * FP32 + targets  # parameters, gradients, two moments
    builder = Builder(name, placement.ranks, resident, kernels=lowering.kernels)
    shift = pair_shifts(workload, placement) if reuse.groups else np.zeros_like(placement.slot)
    lead = placement.first()
    keeps = np.zeros(len(lead), bool)
    keeps[lead[shift > 0]] = True
    emitted = GroupRows(*(np.full(len(lead), NONE, np.int64) for _ in fields(GroupRows)))
    for slot in (0, 1):
        g = np.flatnonzero(placement.slot == slot)
        columns = (emitted.held, emitted.rows, emitted.edges, emitted.kernels, emitted.moved)
        inherits, dense, attended, launched, moved = (np.where(shift[g] > 0, column[lead[g]], 0) for column in columns)
        order = placement.iteration[g] * SLOTS + slot
        open_ = np.full(len(g), NONE, np.int64)  # linked below: the gate of one iteration is the end of the last
        at = (g, placement.rank[g], order, placement.iteration[g], shift[g], keeps[g])
        sites = GroupSites(*at, inherits, dense, attended, launched, moved, open_)
        rows = lowering.emit(builder, sites)
        for field in fields(GroupRows):
            getattr(emitted, field.name)[g] = getattr(rows, field.name)
    _add_synchronisation(builder, placement, workload.model.parameters, reuse, emitted)
    return builder.finish()


def pair_shifts(workload: Workload, placement: Placement) -> Ints:
    """Return how far apart the two snapshot groups on a rank start, in snapshots, where they overlap and REAL's type II can reuse; int64
    [groups], set on the second group, else 0."""
    apart = (np.arange(len(placement.slot)) - placement.first()) * workload.hyper.stride
    return np.where((placement.slot == 1) & (apart > 0) & (apart < workload.hyper.group_size), apart, 0)


def _add_synchronisation(builder: Builder, at: Placement, parameters: int, reuse: Reuse, emitted: GroupRows) -> None:
    """Add the all-reduce and optimiser step of every rank and iteration, and link what the next iteration's first transfer waits for."""
    ranks, iterations = at.ranks, at.iterations
    rank, iteration = np.tile(np.arange(ranks), iterations), np.repeat(np.arange(iterations), ranks)
    site: Columns = {"rank": rank, "iteration": iteration, "order": iteration * SLOTS + SLOTS - 1}
    ready = np.full(ranks * iterations, NONE, np.int64)
    for slot in (0, 1):
        g = np.flatnonzero(at.slot == slot)
        ready[at.site[g]] = emitted.backward[g]
    if ranks > 1:
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, {"collective": iteration, "bytes": parameters * FP32}, after=(ready,))
    update = {"rows": parameters, "flops": 10 * parameters}
    step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, update, after=(ready,))
    previous = at.previous()
    has = previous >= 0
    earlier = np.where(at.iteration > 0, step[np.maximum(at.site - ranks, 0)], NONE)
    builder.link(emitted.reads, earlier)
    if reuse.snapshots:  # the next group's first transfer overlaps this one's backward pass
        gate = np.where(has, emitted.last[previous], NONE)
    else:  # iterations do not overlap, nor do groups but in a pipeline
        same = has & (at.iteration[previous] == at.iteration)
        gate = np.where(same, NONE if reuse.pipeline else emitted.backward[previous], earlier)
    builder.link(emitted.first, gate)
