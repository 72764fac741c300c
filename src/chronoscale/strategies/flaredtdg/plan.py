"""Plan: the rows of an epoch of sliding windows, one window an iteration, every snapshot's rows spread over all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.snapshots.chunks import Blocks
from chronoscale.datasets.snapshots.survival import level_of
from chronoscale.errors import UserError
from chronoscale.strategies.builder import NONE, Builder
from chronoscale.strategies.builder import Columns as Site
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.flaredtdg.expected import expected_ns
from chronoscale.strategies.flaredtdg.keeping import Keeping
from chronoscale.strategies.flaredtdg.turns import Policy, Slot, one_by_one
from chronoscale.strategies.flaredtdg.window import Window
from chronoscale.strategies.kernels import Kernels
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cells import Cells, Region
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.workload import Workload

Mask = NDArray[np.bool_]
Column = TypeVar("Column", Ints, Mask)
REMAPS = 24  # kernels of building what is kept of a snapshot anew
AHEAD = 2  # iterations whose snapshots are on their way or on the device: one trains, the next one's arrives


@dataclass(frozen=True)
class Plan:
    """An epoch on `ranks` ranks; a site is an iteration on a rank, columns are int64 [iterations * ranks].

    shrinks: an older snapshot is cut from what is on the device; else what is kept of it is built anew in every step (FlareDTDG §4.3,
    without shrinking)."""

    name: str
    workload: Workload
    ranks: int
    keeping: Keeping
    policy: Policy
    shrinks: bool = True

    @cached_property
    def chunks(self) -> int:
        return self.workload.hyper.recency.chunks

    @cached_property
    def level(self) -> Ints:
        """What each step of a window keeps, the oldest first; snapshots of which nothing is kept are no part of it."""
        decay = self.keeping.decay
        return np.asarray(level_of(decay, self.chunks)[decay.kept(self.chunks) > 0][::-1])

    @cached_property
    def segments(self) -> list[range]:
        decay, there = self.keeping.decay, self.workload.steps
        if decay.window > there:
            said = f"training.full + training.decayed: a window of {decay.full} + {decay.decayed} snapshots"
            raise UserError(f"{said}, and '{self.workload.name}' has {there} to train on")
        return self.keeping.epoch(self.workload.hyper.seed, 0).steps(there, decay.window)

    @cached_property
    def newest(self) -> Ints:
        """Newest snapshot of each iteration, int64 [iterations]."""
        return np.concatenate([np.arange(one.start, one.stop) for one in self.segments])

    @cached_property
    def first(self) -> Mask:
        """Iterations that a segment begins with."""
        return np.concatenate([np.arange(len(one)) == 0 for one in self.segments])

    @cached_property
    def last(self) -> Mask:
        """Iterations that a segment ends with."""
        return np.append(self.first[1:], True)

    @cached_property
    def blocks(self) -> Blocks:
        assert self.workload.chunking is not None
        return self.workload.chunking.blocks(self.keeping.epoch(self.workload.hyper.seed, 0), self.keeping.decay, self.ranks)

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.workload.model, recomputes=False, parts=self.ranks > 1, replicated=True)

    @cached_property
    def window(self) -> Window:
        remaps = frozenset(np.flatnonzero(self.level > 0).tolist() if not self.shrinks else ())
        return Window(self.workload.model, len(self.level), self.ranks > 1, remaps)

    def region(self, step: int, level: int) -> Region:
        """What ranks have of the snapshots of a step at a level."""
        snapshot = self.newest - (len(self.level) - 1 - step)
        rows = np.tile(self.blocks.rows[level], len(snapshot))
        edges, halo, sent = (column[snapshot, level].ravel() for column in (self.blocks.edges, self.blocks.halo, self.blocks.sent))
        summary = np.minimum(self.blocks.rows[level], self.workload.model.hidden).sum()
        return Region(rows, edges, halo, sent, np.full_like(rows, summary))

    def per_rank(self, iterations: Column) -> Column:
        """A value an iteration for every rank."""
        return cast(Column, np.repeat(iterations, self.ranks))

    def comes(self, step: int) -> Mask:
        """Iterations in which a step's snapshot comes from the host: all of a segment's first window, then the newest, and one of which
        more is kept than a step before."""
        grows = step + 1 == len(self.level) or (self.shrinks and self.level[step] < self.level[step + 1])
        return self.first | bool(grows)

    def held(self, step: int) -> int:
        """The level at which a step's snapshot is on the device once it is there."""
        return int(self.level[step]) if self.shrinks else 0

    def row(self, slot: Slot) -> Columns:
        """Descriptors of a row of the window; its memory but for what comes and goes with snapshots (`kept`)."""
        cells, at, layer = self.cells, self.region(slot.step, int(self.level[slot.step])), slot.layer
        end = len(self.level) - 1
        if slot.op is Op.REMAP:
            whole, part = cells.transfer(self.region(slot.step, 0)), cells.transfer(at)
            return {**part, "bytes": whole["bytes"] + 2 * part["bytes"], "kernels": np.full_like(at.rows, REMAPS)}
        if slot.op is Op.BACKWARD:
            row = cells.backward(at, layer, slot.step == 0, slot.step == end, received=False)
            working = cells.working(at, layer)
            return {**row, "alloc": row["alloc"] + working, "free": row["free"] + working + self._states_left(slot)}
        if slot.op is Op.TEMPORAL:
            row, (joined, gone) = cells.stage(slot.op, at, layer), self._states(slot)
            return {**row, "alloc": row["alloc"] + joined, "free": row["free"] + gone}
        if slot.op is Op.ALLTOALL:
            return cells.halo_gradient(at, layer) if slot.back else cells.halo(at, layer)
        if slot.op is Op.ALLGATHER:
            return cells.gather_gradient(at, layer) if slot.back else cells.gather(at, layer)
        return cells.stage(slot.op, at, layer)

    def _states(self, slot: Slot) -> tuple[Ints, Ints]:
        """Of a recurrence on nodes: what it takes to put inherited states behind those that the snapshot before has come to, and what goes
        with the latter, which nothing reads any more in the last layer unless they predict."""
        none, step = np.zeros(len(self.newest) * self.ranks, np.int64), slot.step
        if self.workload.model.evolves_weights or not self.workload.model.recurs(slot.layer):
            return none, none
        if step == 0:
            return self._state(0, slot.layer) * self.keeping.inherits, none
        joins = self.level[step - 1] > self.level[step] or not self.shrinks
        goes = joins and self.shrinks and slot.layer + 1 == self.workload.model.layers and not self.keeping.each
        return self._state(step, slot.layer) * bool(joins), self._state(step - 1, slot.layer) * bool(goes)

    def _states_left(self, slot: Slot) -> Ints:
        """What a gradient row gives back of states beyond what a cell does: what `_states` took, less what it gave back; and the gradient
        of its state has as many rows as the next snapshot has."""
        left, step = self._states(slot)[0], slot.step
        if self.workload.model.evolves_weights or not self.workload.model.recurs(slot.layer) or step + 1 == len(self.level):
            return left
        after = slot._replace(step=step + 1)
        return left - self._states(after)[1] + self._state(step + 1, slot.layer) - self._state(step, slot.layer)

    def _state(self, step: int, layer: int) -> Ints:
        return self.cells.state(self.region(step, int(self.level[step])), layer)

    def kept(self, slot: Slot) -> tuple[Ints, Ints]:
        """Bytes of snapshots that a row takes and gives back: where one shrinks, where it has been built for this step alone, and where it
        leaves the window, which its oldest does in every step and all do at a segment's end."""
        none = np.zeros(len(self.newest) * self.ranks, np.int64)
        if slot.op is Op.AGGREGATE and slot.layer == 0 and self.shrinks and slot.step + 1 < len(self.level):
            before, now = self.level[slot.step + 1], self.level[slot.step]
            shrinks = self.per_rank(~self.comes(slot.step)) & bool(now > before)
            return shrinks * self._bytes(slot.step, int(now)), shrinks * self._bytes(slot.step, int(before))
        if slot.op is Op.BACKWARD and slot.layer == 0:
            leaves = self.per_rank(self.last | (slot.step == 0))
            built = self._bytes(slot.step, int(self.level[slot.step])) if slot.step in self.window.remaps else none
            return none, leaves * self._bytes(slot.step, self.held(slot.step)) + built
        return none, none

    def _bytes(self, step: int, level: int) -> Ints:
        return self.cells.transfer(self.region(step, level))["bytes"]

    def orders(self, costs: CostModel) -> list[list[Slot]]:
        """The order of rows of every iteration: a policy's, by predicted times, the longest over ranks."""
        if self.policy is one_by_one:
            return [self.window.order({}, one_by_one)] * len(self.newest)
        slots = list(self.window.needs())
        builder = Builder(self.name, self.ranks, kernels=self._kernels())
        for number, slot in enumerate(slots):
            self._add(builder, slot, np.full(len(self.newest) * self.ranks, number), [], number * len(self.newest))
        ns = expected_ns(costs, builder.finish()).reshape(len(slots), len(self.newest), self.ranks).max(2)
        return [self.window.order(dict(zip(slots, column.tolist(), strict=True)), self.policy) for column in ns.T]

    def _kernels(self) -> Kernels:
        return kernels_of(self.workload, "parts", self.ranks)

    def site(self) -> Site:
        iteration = np.arange(len(self.newest))
        return {"rank": np.tile(np.arange(self.ranks), len(iteration)), **dict.fromkeys(("iteration", "unit"), self.per_rank(iteration))}

    def _add(self, builder: Builder, slot: Slot, order: Ints, after: list[Ints], exchange: int) -> Ints:
        """A row of the window on every site."""
        row, (takes, gives) = self.row(slot), self.kept(slot)
        op = Op.ALLTOALL if slot.back and slot.op is Op.ALLGATHER else slot.op
        here = {**self.site(), "order": order, "step": slot.step, "layer": slot.layer}
        memory = {"alloc": row["alloc"] + takes, "free": row["free"] + gives}
        if not slot.communicates:
            return builder.add(op, Lane.COMPUTE, here, row, memory, after=after)
        ids = {"collective": exchange + self.per_rank(np.arange(len(self.newest)))}
        return builder.add(op, Lane.COMM, here, row, memory, ids, after=after)

    def schedule(self, costs: CostModel) -> Schedule:
        """All rows."""
        model, iterations = self.workload.model, len(self.newest)
        orders, needs = self.orders(costs), self.window.needs()
        size = len(needs) + len(self.level) + 2
        place: Mapping[Slot, Ints] = {slot: np.array([order.index(slot) for order in orders]) for slot in needs}
        builder = Builder(self.name, self.ranks, self.resident(), "blocks", feeding=str(self.keeping), kernels=self._kernels())
        begin = self.per_rank(np.arange(iterations) * size)
        came = {step: self._bring(builder, step, begin + step) for step in range(len(self.level))}
        handles: dict[Slot, Ints] = {}
        exchange = iterations
        last = NONE * np.ones(iterations * self.ranks, np.int64)
        chained = self.policy is one_by_one
        for slot in sorted(needs, key=lambda slot: int(place[slot][0])) if chained else needs:
            after = [last] if chained else []
            if (slot.op, slot.layer) in ((Op.AGGREGATE, 0), (Op.REMAP, 0)):
                after.append(came[slot.step])
            order = begin + len(self.level) + self.per_rank(place[slot])
            last = handles[slot] = self._add(builder, slot, order, after, exchange)
            exchange += iterations * slot.communicates
        if not chained:
            for slot, others in needs.items():
                for other in others:
                    builder.link(handles[slot], handles[other])
        return self._step(builder, handles, last, begin + size - 1, came, model.parameters)

    def _bring(self, builder: Builder, step: int, order: Ints) -> Ints:
        """A step's snapshot, numbered anew and sent, where it comes from the host."""
        here, comes = {**self.site(), "order": order, "step": step}, self.per_rank(self.comes(step))
        row, whole = (self.cells.transfer(self.region(step, level)) for level in (self.held(step), 0))
        made: tuple[Ints, ...] = ()
        if self.shrinks:
            work = {name: row[name] for name in ("nodes", "edges", "rows")}
            made = (builder.add(Op.REMAP, Lane.HOST, here, work, {"bytes": whole["bytes"] + row["bytes"]}, where=comes),)
        return builder.add(Op.H2D, Lane.H2D, here, row, where=comes, after=made)

    def _step(
        self, builder: Builder, handles: dict[Slot, Ints], last: Ints, order: Ints, came: dict[int, Ints], parameters: int
    ) -> Schedule:
        ends = [handles[Slot(Op.BACKWARD, step, 0, back=True)] for step in range(len(self.level))]
        here: Site = {**self.site(), "order": order}
        if self.ranks > 1:
            ids: Site = {"collective": self.per_rank(np.arange(len(self.newest))), "bytes": parameters * FP32}
            ends = [builder.add(Op.ALLREDUCE, Lane.COMM, here, ids, after=ends)]
        update = {"bytes": 7 * parameters * FP32, "rows": parameters, "flops": 10 * parameters}  # Adam, as in `lowering`
        step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, here, update, after=ends)
        for handle in came.values():
            builder.link(handle, np.concatenate([np.full(AHEAD * self.ranks, NONE, np.int64), step])[: len(step)])
        return builder.finish()

    def resident(self) -> int:
        """Parameters, gradients and moments, and the states that windows inherit: one row a node, or a layer's weights."""
        model, rows = self.workload.model, int(self.blocks.rows[0].max()) * self.keeping.inherits
        width = model.states * model.depth * FP32
        each = [model.hidden * model.width(layer) if model.evolves_weights else rows * model.hidden for layer in range(model.layers)]
        return 4 * model.parameters * FP32 + width * sum(size for layer, size in enumerate(each) if model.recurs(layer))
