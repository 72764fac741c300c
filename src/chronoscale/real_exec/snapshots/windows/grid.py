"""WindowGrid: the cells of sliding windows. A unit is a window; a snapshot stays on the device from window to window, and shrinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from chronoscale.batching.snapshots.layout import Layout
from chronoscale.cuda_ext.operators.shrink import shrink
from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.snapshots.cells.cell import Cell, CellGrid, SnapshotKey
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.real_exec.snapshots.windows.host_blocks import HostBlocks, SnapshotRows
from chronoscale.real_exec.snapshots.windows.remap import kept_ids, remap
from chronoscale.real_exec.snapshots.windows.states import PrefixStates, ScatteredStates, WeightStates, WindowStates


@dataclass(frozen=True, slots=True)
class WindowLayout:
    """Layout of FlareDTDG's sliding windows: how much each place of a window keeps of its snapshot, and how windows predict and inherit.

    level: the retention level of each place, the oldest first; 0 keeps all. shrinks: snapshots are cut on the device as they age (else each
    window builds them anew). each, inherits: as in `strategies.flaredtdg.retention.WindowRetention`.
    """

    level: tuple[int, ...]
    horizon: int
    shrinks: bool
    each: bool
    inherits: bool


class WindowGrid(CellGrid):
    """Cells (the tensors of a snapshot and layer) of one rank for FlareDTDG's sliding windows. `begin` is called before every epoch.

    A snapshot stays on the device from window to window, and shrinks with its age.
    """

    def __init__(
        self,
        windows: WindowLayout,
        host_blocks: HostBlocks,
        material: SnapshotMaterial,
        model: SnapshotModel,
        rank: int,
        device: torch.device,
    ) -> None:
        super().__init__(model, device)
        self.windows = windows
        self.host_blocks = host_blocks
        self._material = material
        self._rank = rank
        self._there: dict[SnapshotKey, tuple[SnapshotRows, int]] = {}  # on the device, and at what level
        self._built: dict[SnapshotKey, SnapshotRows] = {}  # of snapshots that do not shrink, for one window

    def begin(self, epoch: int, layout: Layout, newest: Int64, first: set[int]) -> None:
        """Begin an epoch of sliding windows on this rank, by its number.

        layout: how nodes are numbered. newest: the newest snapshot of every window. first: which windows begin a segment of the sequence.
        """
        self._layout = layout
        self._newest = newest
        self._first = first
        self.host_blocks.begin(layout, epoch)
        self.cells.clear()
        self._there.clear()
        self._built.clear()
        self._predicted = [] if self._material.task.pairs else [self._predictions(step) for step in range(len(self.windows.level))]
        self._pairs: dict[int, int] = {}
        self.states = self._empty_states()

    def _empty_states(self) -> WindowStates:
        """Return empty states, which windows of this epoch will inherit."""
        if self.shape.evolves_weights:
            return WeightStates()
        counts = [int(self._layout.rows[level, self._rank]) for level in self.windows.level]
        if self.windows.shrinks:
            return PrefixStates(counts)
        depth = self._layout.depth[self._layout.nodes(self._rank)]
        masks = [torch.from_numpy(depth >= level).to(self.device) for level in self.windows.level]
        return ScatteredStates([kept_ids(mask, count) for mask, count in zip(masks, counts, strict=True)], len(depth))

    def _predictions(self, step: int) -> int:
        """Return the number of predictions of all ranks' rows at a place.

        It is counted on the first snapshot that is predicted: classes are the same in all.
        """
        target = self._material.target(int(self._newest[0]) + self.windows.horizon)
        mask = torch.from_numpy(self._layout.depth >= self.windows.level[step])
        return self._material.objective.count(target[mask])

    def snapshot(self, key: SnapshotKey) -> int:
        """Return the number in the sequence of a window's snapshot. key: (window, step)."""
        return int(self._newest[key[0]]) - (len(self.windows.level) - 1 - key[1])

    def level(self, key: SnapshotKey) -> int:
        return self.windows.level[key[1]]

    def rows(self, key: SnapshotKey) -> int:
        return int(self._layout.rows[self.level(key), self._rank])

    def counts(self, key: SnapshotKey) -> list[int]:
        counts: list[int] = self._layout.rows[self.level(key)].tolist()
        return counts

    def route(self, key: SnapshotKey) -> Route:
        return self.host_blocks.route(self.snapshot(key), self.level(key))

    def number(self, task: Task) -> None:
        """Number a snapshot's rows by the epoch's order of nodes, on the host, before it is sent (REMAP on the host lane)."""
        if self._has_to_arrive(key := (task.unit, task.step)):
            self.host_blocks.number(self.snapshot(key), self._level_there(key))

    def transfer(self, task: Task) -> None:
        """Copy a row's snapshot to this rank's device (H2D), unless an earlier window has left it there.

        Where a segment begins in this epoch, and did not in the one that was planned, snapshots are copied when they are read.
        """
        if self._has_to_arrive(key := (task.unit, task.step)):
            self._transfer(key)

    def _transfer(self, key: SnapshotKey) -> None:
        number, level = self.snapshot(key), self._level_there(key)
        self._there[key] = self.host_blocks.rows(number, level).to(self.device, self.shares), level
        self.host_blocks.drop(number, level)

    def _level_there(self, key: SnapshotKey) -> int:
        return self.level(key) if self.windows.shrinks else 0

    def _has_to_arrive(self, key: SnapshotKey) -> bool:
        """Return whether the window before has not left the snapshot on the device, or less of it."""
        unit, step = key
        if unit in self._first or step + 1 == len(self.windows.level):
            return True
        return self.windows.shrinks and self.windows.level[step] < self.windows.level[step + 1]

    def remap(self, task: Task) -> None:
        """Build anew, on the device, what a window retains of an aged snapshot (REMAP on the device)."""
        key = task.unit, task.step
        own, remote = self.host_blocks.kept_masks(self.snapshot(key), self.level(key))
        rows, edges, halo = self.host_blocks.size(self.snapshot(key), self.level(key))
        whole = self._on_device(key)
        graph = whole.full.graph
        record_use(graph.indptr, graph.indices, graph.values, whole.full.scale, whole.features)
        self._built[key] = remap(whole, to_device(own, self.device), to_device(remote, self.device), rows, halo, edges + rows)

    def on_device(self, key: SnapshotKey) -> tuple[Full, Tensor]:
        """Return a snapshot on this rank's device, cut to what its age leaves of it, and its features. key: (window, step)."""
        rows = self._built[key] if key in self._built else self._on_device(key)
        return rows.full, rows.features

    def _on_device(self, key: SnapshotKey) -> SnapshotRows:
        unit, step = key
        if key not in self._there:
            before = None if self._has_to_arrive(key) else self._there.pop((unit - 1, step + 1), None)
            if before is None:
                self._transfer(key)
            else:
                self._there[key] = self._cut(*before, key)
        self._there.pop((unit - 1, step + 1), None)
        return self._there[key][0]

    def _cut(self, rows: SnapshotRows, level: int, key: SnapshotKey) -> tuple[SnapshotRows, int]:
        now = self._level_there(key)
        if now == level:
            return rows, level
        own, edges, halo = self.host_blocks.size(self.snapshot(key), now)
        graph, features = rows.full.graph, rows.features
        # Copies, so that what goes gives its memory back.
        remote = graph.num_cols > graph.num_rows
        left = torch.cat([features[:own], features[graph.num_rows :][:halo]]) if remote else features[:own].clone()
        scale = None if rows.full.scale is None else rows.full.scale[:own].clone()
        return SnapshotRows(Full(shrink(graph, own, halo, edges + own), scale), left), now

    def drop_features(self, key: SnapshotKey) -> None:
        """Do nothing: in sliding windows, features stay for as long as their snapshot."""

    def drop_snapshot(self, key: SnapshotKey) -> None:
        self._built.pop(key, None)
        if key[1] == 0 or key[0] + 1 in self._first or key[0] + 1 == len(self._newest):
            self._there.pop(key, None)

    def end_window(self, unit: int) -> None:
        """Drop the cells of a window that has been trained on; hidden states, too, where the next one inherits none. unit: the window."""
        self.cells.clear()
        if unit + 1 in self._first or not self.windows.inherits:
            self.states.forget()

    def predicts(self, step: int) -> bool:
        """Return whether the snapshot at a step of a window has a prediction: every one where weights evolve, or as published; else the
        newest.
        """
        return self.shape.predicts_each or self.windows.each or step + 1 == len(self.windows.level)

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return this rank's part of the loss of a window from a snapshot's outputs [N, H]: of the mean over all rows that the window
        predicts.

        As published: the mean over snapshots of each rank's own mean, times its share of the nodes, averaged over ranks.
        """
        objective, key = self._material.objective, (task.unit, task.step)
        target = self._target(key)
        total = self.total(task, output, objective, target)
        if self.windows.each:
            nodes = self._layout.rows[0]
            share = float(nodes[self._rank] / nodes.sum()) / len(nodes)
            return total / max(objective.count(target), 1) * share / len(self.windows.level)
        return total / max(self._count(task.unit), 1)

    def _target(self, key: SnapshotKey) -> Tensor:
        return self.host_blocks.target(self.snapshot(key) + self.windows.horizon, self.level(key))

    def _count(self, unit: int) -> int:
        """Return the number of predictions of a window, over which its loss is a mean."""
        steps = [step for step in range(len(self.windows.level)) if self.predicts(step)]
        if not self._material.task.pairs:
            return sum(self._predicted[step] for step in steps)
        if unit not in self._pairs:
            self._pairs = {unit: sum(self._material.objective.count(self._target((unit, step))) for step in steps)}
        return self._pairs[unit]

    def initial_state(self, task: Task, last: Cell | None) -> list[Tensor] | None:
        """Return the recurrent state that a window's snapshot goes on from, as leaf tensors: that of `last`, and rows inherited from the
        window before behind it.

        last: the cell of the snapshot before. Where these are joined into a copy, and nothing else reads its state, that is released.
        """
        before = None if last is None else [part.detach() for part in last.after or ()]
        if last is not None and not self.windows.shrinks:  # rows are no prefixes: the gradient has to find them
            return [part.requires_grad_() for part in before or ()]
        joined = self.states.initial(task.step, task.layer, before)
        if joined is None:
            return None
        unread = task.layer + 1 == self.shape.layers and not self.predicts(task.step - 1)
        if last is not None and last.after is not None and unread and self._is_copied(task.step):
            last.edges, last.after = [get_gradient_edge(part) for part in last.after], None
        return [part.detach().requires_grad_(last is not None) for part in joined]

    def whole_state(self, task: Task, begins: list[Tensor] | None) -> list[Tensor] | None:
        if self.windows.shrinks:
            return begins
        return self.states.initial(task.step, task.layer, begins if task.step else None)

    def _is_copied(self, step: int) -> bool:
        """Return whether a window retains more of a place's snapshot than of the one before it."""
        return not self.shape.evolves_weights and self.windows.level[step - 1] > self.windows.level[step]

    def keep_state(self, task: Task, after: list[Tensor]) -> None:
        self.states.keep(task.step, task.layer, after)


def first_of(segments: list[range]) -> tuple[Int64, set[int]]:
    """Return the newest snapshot of every sliding window of an epoch, int64, and which windows begin a segment.

    segments: where windows slide without a break: the numbers of their newest snapshots.
    """
    newest = np.concatenate([np.arange(segment.start, segment.stop) for segment in segments])
    return newest, set(np.cumsum([0, *(len(segment) for segment in segments)])[:-1].tolist())
