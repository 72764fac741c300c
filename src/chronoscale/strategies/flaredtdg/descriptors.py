"""Descriptors: the work of every row of a window, and the memory that it takes and frees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from chronoscale.strategies.costing.kernels import DESCRIPTORS, Kernels
from chronoscale.strategies.flaredtdg.issue_order import Slot
from chronoscale.strategies.flaredtdg.kernels import RETURNS, law_variables
from chronoscale.strategies.flaredtdg.sites import Mask, WindowSites
from chronoscale.strategies.schedule import Ints, Op
from chronoscale.strategies.snapshots.cell_variants import CellAggregate, CellBackward, CellNumbering, CellTemporal
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns, working_numbers
from chronoscale.strategies.snapshots.targets import LOGIT, PAIR, READOUT_KERNELS, predictions
from chronoscale.strategies.snapshots.tasks import task_of


@dataclass(frozen=True)
class Descriptors(WindowSites):
    """Work and memory of every row in FlareDTDG's plan of an epoch of sliding windows, on every (iteration, rank); columns int64
    [iterations * ranks]."""

    def row(self, slot: Slot) -> Columns:
        """Return how much work an operation of a window is on every rank, as columns of the schedule, for FlareDTDG's planner; with its
        memory, but without that of snapshots, which `snapshot_memory` counts."""
        cells = self.cells
        at = self.region(slot.step, int(self.level[slot.step]))
        layer = slot.layer
        end = len(self.level) - 1
        if slot.op is Op.REMAP:
            row = {name: size for name, size in cells.transfer(at).items() if name != "bytes"}
            return {**row, "variant": np.full_like(at.rows, CellNumbering.REBUILT)}
        if slot.op is Op.BACKWARD:
            row = cells.backward(at, layer, slot.step == 0, slot.step == end, received=False, predicts=slot.step in self.predicting)
            own = FP32 * working_numbers(self.workload.model, at.rows, layer)
            if layer + 1 == self.workload.model.layers:
                row, own = cells.with_pairs(row, *self.pair_work(slot.step)), own + self._pair_memory(slot.step)
            memory = {"alloc": row["alloc"] + own, "free": row["free"] + own + self._states_freed(slot)}
            return {**row, **memory, "variant": self._backward_variant(slot, row["variant"])}
        if slot.op is Op.TEMPORAL:
            row, (joined, freed) = cells.stage(slot.op, at, layer), self._states(slot)
            return {**row, "alloc": row["alloc"] + joined, "free": row["free"] + freed, "variant": self._temporal_variant(slot)}
        if slot.op is Op.ALLTOALL:
            return cells.halo_gradient(at, layer) if slot.back else cells.halo(at, layer)
        if slot.op is Op.ALLGATHER and layer == self.workload.model.layers:
            return cells.gather_readouts(at, self.pair_work(slot.step)[0])
        if slot.op is Op.ALLGATHER:
            return cells.gather_gradient(at, layer) if slot.back else cells.gather(at, layer)
        row = cells.stage(slot.op, at, layer)
        return {**row, "variant": self._aggregate_variant(slot)} if slot.op is Op.AGGREGATE else row

    def _begins(self) -> Mask:
        """Return on which sites a window's oldest snapshot begins without a state, bool [iterations * ranks]."""
        return self.per_rank(self.first | (not self.keeping.inherits))

    def _scatters(self, layer: int) -> bool:
        """Return whether states of a layer are put where their nodes stand among all rows, which are no prefixes of each other."""
        return not self.shrinks and not self.workload.model.evolves_weights and self.workload.model.recurs(layer)

    def _temporal_variant(self, slot: Slot) -> Ints:
        """Return which implementation runs a recurrent step, int64 [iterations * ranks]."""
        step, oldest = slot.step, CellTemporal.INHERITED
        if self._scatters(slot.layer):
            later = oldest = CellTemporal.SCATTERED
        else:
            joins = step > 0 and self.level[step - 1] > self.level[step] and not self.workload.model.evolves_weights
            later = CellTemporal.JOINED if joins else CellTemporal.ON
        initial = CellTemporal.ON if self.workload.model.evolves_weights else CellTemporal.FIRST
        return np.where((step == 0) & self._begins(), initial, oldest if step == 0 else later).astype(np.int64)

    def _backward_variant(self, slot: Slot, parts: Ints) -> Ints:
        """Return the parts of a window's gradient row (`CellBackward`), int64 [iterations * ranks]. parts: those of its cell, whose oldest
        snapshot has an inherited state, which needs no gradient, or none; evolving weights begin with trained ones."""
        begins, evolves = self._begins(), self.workload.model.evolves_weights
        if slot.step > 0 or not self.workload.model.recurs(slot.layer):
            return parts | CellBackward.SCATTERED * self._scatters(slot.layer)
        parts = parts & ~(CellBackward.STATE | CellBackward.BEFORE)
        state, before = ~begins | evolves, begins & evolves
        scattered = ~begins & self._scatters(slot.layer)
        return parts | CellBackward.STATE * state | CellBackward.BEFORE * before | CellBackward.SCATTERED * scattered

    def _aggregate_variant(self, slot: Slot) -> Ints:
        """Return which implementation runs an aggregation, int64 [iterations * ranks]."""
        variables = law_variables(self.level, slot.step, slot.layer, self.per_rank(self.first), self._begins(), self.shrinks)
        if slot.layer == 0:
            return np.where(variables["cuts"], CellAggregate.CUT, CellAggregate.DATA).astype(np.int64)
        there = np.asarray(variables["stays"]) | (slot.layer > 1)
        return np.where(there, CellAggregate.TRACKED, CellAggregate.TURNED).astype(np.int64)

    def _pair_memory(self, step: int) -> Ints:
        """Return the bytes of a step's pairs, which come to the device for its loss, and of what the loss takes, int64 [iterations *
        ranks]; 0 for a task that predicts nodes."""
        goal = self.newest - (len(self.level) - 1 - step) + self.workload.hyper.horizon
        counted = step in self.predicting and task_of(self.workload.hyper.task).pairs
        return self.per_rank(predictions(self.workload, goal)) * (PAIR + LOGIT) * int(counted)

    def _states(self, slot: Slot) -> tuple[Ints, Ints]:
        """Return the bytes of recurrent states that a TEMPORAL row takes and frees beside its cell's.

        It takes room to put inherited states behind those that the snapshot before has come to; it frees the latter where nothing reads
        them any more: in the last layer, unless they predict.
        """
        none, step = np.zeros(len(self.newest) * self.ranks, np.int64), slot.step
        if self.workload.model.evolves_weights or not self.workload.model.recurs(slot.layer):
            return none, none
        if step == 0:
            return self._state_bytes(0, slot.layer) * self.keeping.inherits, none
        joins = self.level[step - 1] > self.level[step] or not self.shrinks
        goes = joins and self.shrinks and slot.layer + 1 == self.workload.model.layers and not self.keeping.each
        return self._state_bytes(step, slot.layer) * bool(joins), self._state_bytes(step - 1, slot.layer) * bool(goes)

    def _states_freed(self, slot: Slot) -> Ints:
        """Return the bytes of states that a gradient row frees beyond its cell's: those that `_states` took, less those that it freed; the
        gradient of its state has as many rows as the next snapshot."""
        left, step = self._states(slot)[0], slot.step
        if self.workload.model.evolves_weights or not self.workload.model.recurs(slot.layer) or step + 1 == len(self.level):
            return left
        after = slot._replace(step=step + 1)
        return left - self._states(after)[1] + self._state_bytes(step + 1, slot.layer) - self._state_bytes(step, slot.layer)

    def _state_bytes(self, step: int, layer: int) -> Ints:
        """Return the bytes of a layer's recurrent state at a place of the window."""
        return self.cells.state(self.region(step, int(self.level[step])), layer)

    def snapshot_memory(self, slot: Slot) -> tuple[Ints, Ints]:
        """Return the bytes of snapshots that an operation of a window allocates and frees on each rank, int64 [iterations * ranks] both.

        A snapshot changes where it shrinks or is sent again, is freed where it was built only for this step, and where it leaves the
        window: its oldest does in every step, all do at the end of a segment (a run of consecutive windows).
        """
        none = np.zeros(len(self.newest) * self.ranks, np.int64)
        if slot.op is Op.AGGREGATE and slot.layer == 0 and self.shrinks and slot.step + 1 < len(self.level):
            before, now = self.level[slot.step + 1], self.level[slot.step]
            stays = self.per_rank(~self.first) & bool(now != before)  # and is replaced, by its own part or by more of it that came
            return stays * bool(now > before) * self._snapshot_bytes(slot.step, int(now)), stays * self._snapshot_bytes(
                slot.step, int(before)
            )
        if slot.op is Op.BACKWARD and slot.layer == 0:
            leaves = self.per_rank(self.last | (slot.step == 0))
            built = self._snapshot_bytes(slot.step, int(self.level[slot.step])) if slot.step in self.window.remaps else none
            return none, leaves * self._snapshot_bytes(slot.step, self.level_on_device(slot.step)) + built
        return none, none

    def _snapshot_bytes(self, step: int, level: int) -> Ints:
        """Return the bytes of what a level retains of the snapshot at a place of the window."""
        return self.cells.transfer(self.region(step, level))["bytes"]

    def kernels(self) -> Kernels:
        """Return the counts of GPU kernels for this epoch's rows, with the sizes that are the same in all of them."""
        kernels = kernels_of(self.workload, "blocks", self.ranks)
        return replace(
            kernels, sizes={**kernels.sizes, "steps": len(self.level), "anew": int(not self.shrinks), "each": int(self.keeping.each)}
        )

    def kernel_count(self, slot: Slot, kernels: Kernels) -> Ints:
        """Return the number of GPU kernels that an operation of a window launches on each rank, int64."""
        if slot.layer == self.workload.model.layers:
            return np.full(1, READOUT_KERNELS, np.int64)
        name = RETURNS[slot.op] if slot.back and slot.communicates else slot.op.name
        return kernels.count(name, **self._variables(slot))

    def moved(self, slot: Slot, row: Columns, kernels: Kernels) -> Ints:
        """Return the bytes of device memory that a computation in a window reads and writes on each rank, int64. row: its columns, as of
        `row`."""
        sizes, end = {name: row.get(name, 0) for name in DESCRIPTORS}, len(self.level) - 1
        level = 0 if slot.op is Op.REMAP or slot.step == end else int(self.level[slot.step + 1])  # what there is of it, before it shrinks
        full_region = self.region(slot.step, level)
        beside = {
            "earlier": self._own_rows(slot.step - 1),
            "after": self._own_rows(slot.step + 1),
            "entries": full_region.edges,
            "vertices": full_region.rows,
        }
        return kernels.bytes(slot.op.name, **self._variables(slot), **sizes, **beside)

    def _own_rows(self, step: int) -> Ints:
        """Return the number of own rows of a step's snapshot; 0 beyond the window."""
        inside = 0 <= step < len(self.level)
        return self.region(step, int(self.level[step])).rows if inside else np.zeros(len(self.newest) * self.ranks, np.int64)

    def _variables(self, slot: Slot) -> dict[str, ArrayLike]:
        """Return the variables of the laws of a row's kernels and bytes."""
        masks = self.per_rank(self.first), self.per_rank(self.seen_first(slot.step))
        variables = law_variables(self.level, slot.step, slot.layer, *masks, self.shrinks)
        return {**variables, "top": slot.layer == self.workload.model.layers - 1}

    def resident(self) -> int:
        """Return the device bytes that FlareDTDG's plan needs on every rank throughout: parameters, gradients and the optimiser's moments,
        and the hidden states handed on from window to window (one row a vertex, or a layer's evolving weights)."""
        model, rows = self.workload.model, int(self.blocks.rows[0].max()) * self.keeping.inherits
        width = model.states * model.depth * FP32
        each = [model.hidden * model.width(layer) if model.evolves_weights else rows * model.hidden for layer in range(model.layers)]
        return 4 * model.parameters * FP32 + width * sum(size for layer, size in enumerate(each) if model.recurs(layer))
