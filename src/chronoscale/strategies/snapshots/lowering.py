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
from chronoscale.strategies.snapshots.folding import computed_rows, folded_bytes
from chronoscale.strategies.snapshots.forms import Forms, choose_forms, uniform_forms
from chronoscale.strategies.snapshots.gradient_passes import GradientPasses
from chronoscale.strategies.snapshots.groups import CAPACITY, Placement
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Rows
from chronoscale.strategies.snapshots.shared_rows import SharedRows, can_share_rows
from chronoscale.strategies.snapshots.sites import SLOTS, FirstLayerRows, GroupRows, GroupSites
from chronoscale.strategies.snapshots.targets import pair_bytes, predicted_snapshots
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.snapshots.variants import AggregateVariant, Form, TemporalVariant
from chronoscale.strategies.workload import Workload

CARRIED = "CARRIED"  # in the counts of kernels: what one snapshot's first layer adds to the gradient pass that ends it


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a planner of whole snapshot groups reuses (REAL §4). snapshots: what consecutive snapshots of a group share, so that only
    differences are sent and computed, in three lanes (type I). groups: snapshots that two groups on a rank share (type II). rows: rows of a
    recurrence whose input stays as it is, in a group and in two that share snapshots (`shared_rows`); their gradient passes come last.

    pipeline: nothing is reused; the two groups of a rank are in flight at once, aggregation of one beside the recurrence of the other, and
    a copy on the device between the stages (BLAD).

    Where every snapshot has features of its own (`SnapshotTask.varies`), type I reuses adjacencies alone: features are sent with each
    snapshot, and aggregated anew. Type II reuses all that it does else: both groups read the same features of a snapshot.
    """

    snapshots: bool = False
    groups: bool = False
    pipeline: bool = False
    rows: bool = False

    def __post_init__(self) -> None:
        if self.rows and (self.pipeline or not (self.snapshots and self.groups)):
            raise ValueError("reuse of rows goes with that of snapshots and groups, and with no pipeline")


class Lowering:
    """Planner's step that turns placed snapshot groups into schedule rows, for PSG, BLAD and REAL: of one workload, with one kind of reuse.

    forms: how each snapshot is sent; None: as `costs` makes it cheapest.
    """

    def __init__(self, workload: Workload, reuse: Reuse, costs: CostModel, forms: Forms | None = None) -> None:
        self.workload = workload
        self.reuse = reuse
        self.varies = task_of(workload.hyper.task).varies
        self.shares_rows = reuse.rows and can_share_rows(workload)
        self.kernels = kernels_of(workload)
        self.end_laws = kernels_of(workload, "shared") if self.shares_rows else self.kernels  # of gradient passes and steps
        self.passes = GradientPasses(workload, self.end_laws, self.shares_rows, reuse.pipeline)
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
        none, size = np.zeros(len(snapshot), bool), self.workload.hyper.group_size
        rows = self._rows(np.maximum(snapshot - size + 1, 0), size)
        self._add_first_layer(timer, rows, {"rank": np.zeros_like(snapshot), "order": 0}, snapshot, form, read, none, ())

    def _rows(self, origin: Ints, span: Ints | int) -> Rows:
        """Return the work of snapshots of which each is one of the `span` from an `origin` on, int64 [n], that groups share."""
        return Rows(self.workload, computed_rows(self.workload, origin, span) if self.varies else None)

    def _rows_at(self, at: GroupSites) -> Rows:
        """Return the work of groups."""
        return self._rows(self.workload.group_start(at.unit) - at.shift, at.span)

    @property
    def incremented(self) -> bool:
        """Whether any snapshot's aggregates are computed from the last ones by their differences, so that all are saved for it."""
        return self.reuse.snapshots and bool((self.forms.form == Form.DELTA).any())

    @property
    def _features_stay(self) -> bool:
        """Whether input features stay on the device with their group, not until they are aggregated.

        Those of all snapshots do, sent once a group, and those that are summarised: the gradient pass reads them.
        """
        return bool(self.workload.model.summarises) or (self.reuse.snapshots and not self.varies)

    def _temporal_variant(self, step: int) -> TemporalVariant:
        """Return which implementation runs a recurrent step."""
        first = step == 0 and not self.workload.model.evolves_weights
        if self.reuse.pipeline:
            return TemporalVariant.FIRST_BESIDE if first else TemporalVariant.ON_BESIDE
        return TemporalVariant.FIRST if first else TemporalVariant.ON

    def _add_first_layer(
        self,
        sink: Sink,
        rows: Rows,
        site: Columns,
        snapshot: Ints,
        form: NDArray[np.int8],
        own: NDArray[np.bool_],
        features: NDArray[np.bool_],
        after: Sequence[Ints],
        shared: tuple[SharedRows, NDArray[np.bool_]] | None = None,
    ) -> FirstLayerRows:
        """Add the first layer of the sites' `own` snapshots, up to what later snapshots and groups can reuse.

        features: bool [n], input features come with the snapshot. shared: counts of rows that groups share, and, bool [n], whether the
        snapshot is the first one of these groups.
        """
        model = self.workload.model
        none, zero = np.full(len(snapshot), NONE, np.int64), np.zeros(len(snapshot), np.int64)
        result = FirstLayerRows(none, none, none, zero, zero, zero, zero, zero)
        everything = np.full(len(snapshot), rows.nodes)
        # What increments go on from stays with the group: its features, and the sum. Attention aggregates transformed features; the weight
        # gradient needs the raw ones.
        passing = zero if model.transforms_first or self._features_stay else features * rows.features
        copies = 2 if self.incremented else 1
        for kind in Form:
            mask = own & (form == kind)
            if not mask.any():
                continue
            moved = rows.transfer(snapshot, kind, self.forms.tracked, features)
            if shared is not None:
                moved |= {name: moved[name] + more for name, more in shared[0].listed(shared[1]).items()}
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
                if shared is not None:
                    product |= shared[0].parted_product(shared[1], product, incremental)
                ready = sink.add(Op.TRANSFORM, self.second, site, product, where=mask, after=(ready,))
                held, dense = held + product["alloc"] - product.get("free", zero), product["rows"]
            result.arrived, result.ready = np.where(mask, h2d, result.arrived), np.where(mask, ready, result.ready)
            result.held, result.rows, result.edges = result.held + mask * held, result.rows + mask * dense, result.edges + mask * edges
            result.kernels = result.kernels + mask * self.end_laws.count(CARRIED, partial=incremental, features=features)
            sizes = {name: summed[name] for name in ("nodes", "rows", "edges")} | ({"rows": dense} if shared else {})
            result.moved = result.moved + mask * self.end_laws.bytes(CARRIED, partial=incremental, features=features, **sizes)
        return result

    def add_forward(self, sink: Sink, at: GroupSites) -> GroupRows:
        """Add the rows of one snapshot group at each site to a builder or timer, up to the group's outputs."""
        rows = self._rows_at(at)
        model = self.workload.model
        size = self.workload.hyper.group_size
        start = self.workload.group_start(at.unit)
        site: Columns = {"rank": at.rank, "order": at.order, "iteration": at.iteration, "unit": at.unit}
        first, reads = np.full(len(start), NONE, np.int64), np.full(len(start), NONE, np.int64)
        held, active, carried, attended, fresh, kernels, moved = (np.zeros(len(start), np.int64) for _ in range(7))
        everything, zero = np.full(len(start), rows.nodes), np.zeros(1, np.int64)
        shared = self._shared(at) if self.shares_rows else None
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
                    waits = [gate, *waits]
                    reading = (shared, (at.shift == 0) & (step == 0)) if shared else None
                    loaded = self._add_first_layer(sink, rows, here, snapshot, form, own, features, waits, reading)
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
                cell: dict[str, Ints] = rows.recurrence(layer)
                if shared and layer == 0:
                    cell = shared.step(step)
                else:
                    cell["variant"] = np.full(1, self._temporal_variant(step))
                output = sink.add(Op.TEMPORAL, self.second, here, cell, after=(ready,))
                active = active + cell["alloc"] - cell.get("free", zero)
                if model.evolves_weights:
                    product = rows.transform(everything, model.width(layer))
                    read = {"free": features * (not self._features_stay) * rows.features}
                    output = sink.add(Op.TRANSFORM, self.second, here, product, read, after=(ready,))
                    active += product["alloc"]
                outputs.append(output)
            below = outputs
        return GroupRows(first, reads, below[-1], held, carried, attended, kernels, moved, active, fresh)

    def _shared(self, at: GroupSites) -> SharedRows:
        """Return the counts of rows that groups share."""
        return SharedRows.of(self._rows_at(at), self.end_laws, self.workload.group_start(at.unit) - at.shift, at.span, at.shift > 0)

    def add_backward(self, sink: Sink, at: GroupSites, made: GroupRows, other: GroupRows, after: Ints) -> Ints:
        """Add the gradient pass of one snapshot group at each site (`GradientPasses.add`)."""
        return self.passes.add(sink, at, self._rows_at(at), self._shared(at) if self.shares_rows else None, made, other, after)


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
    shift = pair_shifts(workload, placement) if reuse.groups else np.zeros_like(placement.slot)
    lead, unit = placement.first(), np.arange(len(shift))
    partner = np.where(shift > 0, lead, NONE)  # the other group of two that share snapshots
    partner[lead[shift > 0]] = unit[shift > 0]
    span = workload.hyper.group_size + np.where(partner < 0, 0, np.maximum(shift, shift[partner]))
    nodes = computed_rows(workload, workload.group_start(unit) - shift, span)
    folds = nodes < workload.snapshots.num_nodes
    lists = folds & (shift == 0)
    values = np.repeat(placement.rank[folds], goals.shape[1]), goals[folds].ravel()
    stays = folded_bytes(workload, placement.ranks, *values, placement.rank[lists], nodes[lists])
    resident = 4 * workload.model.parameters * FP32 + targets + stays  # parameters, gradients, two moments
    builder = Builder(name, placement.ranks, resident, kernels=lowering.kernels)
    none = np.full(len(lead), NONE, np.int64)  # linked below: the gate of one iteration is the end of the last
    sites = GroupSites(unit, placement.rank, placement.iteration * SLOTS + placement.slot, placement.iteration, shift, span, none)
    emitted, backward = GroupRows(*(np.full(len(lead), NONE, np.int64) for _ in fields(GroupRows))), none.copy()
    by_slot = [np.flatnonzero(placement.slot == slot) for slot in range(CAPACITY)]
    for g in by_slot:
        made = lowering.add_forward(builder, sites.at(g))
        for field in fields(GroupRows):
            getattr(emitted, field.name)[g] = getattr(made, field.name)
    for g in reversed(by_slot) if lowering.shares_rows else by_slot:
        at, other = sites.at(g), partner[g]
        after = np.where(lowering.passes.is_last(at) & (other >= 0), backward[other], NONE)
        backward[g] = lowering.add_backward(builder, at, emitted.at(g), emitted.at(other), after)
    _add_synchronisation(builder, placement, workload.model.parameters, reuse, emitted, backward, lowering.passes.is_last(sites))
    return builder.finish()


def pair_shifts(workload: Workload, placement: Placement) -> Ints:
    """Return how far apart the two snapshot groups on a rank start, in snapshots, where they overlap and REAL's type II can reuse; int64
    [groups], set on the second group, else 0."""
    apart = (np.arange(len(placement.slot)) - placement.first()) * workload.hyper.stride
    return np.where((placement.slot == 1) & (apart > 0) & (apart < workload.hyper.group_size), apart, 0)


def _add_synchronisation(
    builder: Builder, at: Placement, parameters: int, reuse: Reuse, emitted: GroupRows, backward: Ints, last: NDArray[np.bool_]
) -> None:
    """Add the all-reduce and optimiser step of every rank and iteration, and link what the next iteration's first transfer waits for.

    backward: handles of the groups' gradient passes; last bool [n]: of which no other group's of two that share snapshots comes after.
    """
    ranks, iterations = at.ranks, at.iterations
    rank, iteration = np.tile(np.arange(ranks), iterations), np.repeat(np.arange(iterations), ranks)
    site: Columns = {"rank": rank, "iteration": iteration, "order": iteration * SLOTS + SLOTS - 1}
    ready = np.full(ranks * iterations, NONE, np.int64)
    for slot in range(CAPACITY):
        g = np.flatnonzero((at.slot == slot) & last)
        ready[at.site[g]] = backward[g]
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
        gate = np.where(same, NONE if reuse.pipeline else backward[previous], earlier)
    builder.link(emitted.first, gate)
