"""Gradient passes of whole snapshot groups, as rows of a plan: of a group alone, or of two that share snapshots or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.planning.builder import Columns, Sink
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.snapshots.folding import spread_work
from chronoscale.strategies.snapshots.rows import FP32, Rows
from chronoscale.strategies.snapshots.shared_rows import SharedRows
from chronoscale.strategies.snapshots.sites import SLOTS, GroupRows, GroupSites
from chronoscale.strategies.snapshots.targets import pair_flops, predicted_snapshots
from chronoscale.strategies.snapshots.variants import BackwardVariant
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class GradientPasses:
    """Planner's step that adds the gradient passes of snapshot groups, for PSG, BLAD and REAL.

    laws: of their kernels. shares_rows: groups share rows of a recurrence (`shared_rows`), and the first one's pass comes last; else the
    second one's does. pipeline: the passes of two groups are in flight at once.
    """

    workload: Workload
    laws: Kernels
    shares_rows: bool
    pipeline: bool

    def leads(self, at: GroupSites) -> NDArray[np.bool_]:
        """Return which groups are the first of two that share snapshots, bool [n]."""
        return at.leads(self.workload.hyper.group_size)

    def is_last(self, at: GroupSites) -> NDArray[np.bool_]:
        """Return whose gradient pass is the last of the groups that share snapshots, which it carries on and frees, bool [n]."""
        return at.shift == 0 if self.shares_rows else ~self.leads(at)

    def left(self, at: GroupSites, rows: Rows, shared: SharedRows | None) -> Ints:
        """Return the bytes of gradients that the first pass of two groups leaves for the last one to add to and carry on, int64 [n].

        They are of every step's input of the first layer's recurrence. Where groups share rows they are of the rows that change, or of all
        where each step picks these from its input, and of what the second group reads of the others' outputs: in the last step, or, with
        layers above, in every one. Weights that evolve have none.
        """
        model, size = self.workload.model, self.workload.hyper.group_size
        gradients = np.broadcast_to(np.asarray(size * rows.nodes, np.int64), at.unit.shape)
        if shared is not None:
            read = size if model.layers > 1 else 1
            gradients = gradients + (read - size * (not model.transforms_first)) * shared.stays
        return np.where(at.span > size, gradients, 0) * (FP32 * model.hidden * (not model.evolves_weights))

    def add(
        self, sink: Sink, at: GroupSites, rows: Rows, shared: SharedRows | None, made: GroupRows, other: GroupRows, after: Ints
    ) -> Ints:
        """Add the gradient pass of one snapshot group at each site to a builder or timer; return its rows' handles, int64 [n].

        rows: the work of the groups' snapshots; shared: and of the rows that they share, if any. made: the groups' rows, other: of those
        that they share snapshots with (0 without). after: handles that it waits for, too.
        """
        size, last, leads = self.workload.hyper.group_size, self.is_last(at), self.leads(at)
        held, carried, attended, kernels, moved = (
            last * (getattr(made, name) + getattr(other, name)) for name in ("held", "rows", "edges", "kernels", "moved")
        )
        gradient = rows.backward(self.workload.group_start(at.unit), carried, attended)
        decoded = pair_flops(self.workload, predicted_snapshots(self.workload, at.unit)).sum(axis=1)
        gradient["flops"] = gradient["flops"] + decoded
        variant: Columns = {"variant": BackwardVariant.BESIDE if self.pipeline else BackwardVariant.ALONE}
        flags: dict[str, NDArray[Any]] = {}
        if shared is not None:
            gradient, variant = shared.backward(gradient, leads), {}
            flags = {"follows": at.shift > 0, "leads": leads, "stays": shared.stays}
        own = np.where(leads, at.span - size, size) if self.shares_rows else np.where(at.shift > 0, at.shift, size)
        left = self.left(at, rows, shared)
        gradient["alloc"] = gradient["alloc"] + ~last * left
        later: Columns = {}
        if self.pipeline or self.shares_rows:
            later = {"order": at.order + (2 if self.pipeline else SLOTS // 2 * leads)}
        start, fresh = self.workload.group_start(at.unit), made.fresh
        if self.shares_rows:  # the first group's pass comes to what the second one's has not
            fresh = np.sum([(step < own) * rows.edges(start + step) for step in range(size)], axis=0)
        sizes: dict[str, Any] = {"nodes": rows.nodes, "edges": gradient["edges"], "rows": gradient["rows"], "fresh": fresh}
        readouts = size if self.workload.model.predicts_each else 1
        spread_kernels, spread = spread_work(self.workload.model, self.workload.snapshots.num_nodes - rows.nodes)
        ends_with: Columns = {
            "free": made.active + held + gradient["alloc"] + np.where(last, left, -left),
            "kernels": self.laws.count(Op.BACKWARD.name, own=own, **flags) + kernels + readouts * spread_kernels,
            "bytes": self.laws.bytes(Op.BACKWARD.name, own=own, **flags, **sizes) + moved + readouts * spread,
        }
        here: Columns = {"rank": at.rank, "order": at.order, "iteration": at.iteration, "unit": at.unit}
        return sink.add(Op.BACKWARD, Lane.COMPUTE, here, gradient, ends_with, variant, later, after=(made.last, after))
