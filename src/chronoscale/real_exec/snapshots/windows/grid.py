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
from chronoscale.real_exec.execution.lanes import uses
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.cell import Cell, Grid, Seat
from chronoscale.real_exec.snapshots.material import Full, Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.real_exec.snapshots.windows.inherited import Inherited, States, Weights
from chronoscale.real_exec.snapshots.windows.remap import Scattered, kept_ids, remapped
from chronoscale.real_exec.snapshots.windows.stock import Rows, Stock


@dataclass(frozen=True, slots=True)
class Windows:
    """`level` of each place of a window, the oldest first; `shrinks` as in `strategies.flaredtdg.plan.Plan`; `each`, `inherits` as in
    `Keeping`."""

    level: tuple[int, ...]
    horizon: int
    shrinks: bool
    each: bool
    inherits: bool


class WindowGrid(Grid):
    """Of one rank. `begin` is called before every epoch."""

    def __init__(self, windows: Windows, stock: Stock, material: Material, model: SnapshotModel, rank: int, device: torch.device) -> None:
        super().__init__(model, device)
        self.windows, self.stock, self._material, self._rank = windows, stock, material, rank
        self._there: dict[Seat, tuple[Rows, int]] = {}  # on the device, and at what level
        self._built: dict[Seat, Rows] = {}  # of snapshots that do not shrink, for one window

    def begin(self, layout: Layout, newest: Int64, first: set[int]) -> None:
        """An epoch: how nodes are numbered, the newest snapshot of every window, and which windows begin a segment."""
        self._layout, self._newest, self._first = layout, newest, first
        self.stock.begin(layout)
        self.cells.clear()
        self._there.clear()
        self._built.clear()
        self._predicted = [self._predictions(step) for step in range(len(self.windows.level))]
        self.states = self._begun()

    def _begun(self) -> States:
        if self.shape.evolves_weights:
            return Weights()
        counts = [int(self._layout.rows[level, self._rank]) for level in self.windows.level]
        if self.windows.shrinks:
            return Inherited(counts)
        depth = self._layout.depth[self._layout.nodes(self._rank)]
        kept = [torch.from_numpy(depth >= level).to(self.device) for level in self.windows.level]
        return Scattered([kept_ids(mask, count) for mask, count in zip(kept, counts, strict=True)], len(depth))

    def _predictions(self, step: int) -> int:
        """What all ranks' rows of a place predict together, were they those of the first snapshot: classes are the same in all."""
        target = self._material.target(int(self._newest[0]) + self.windows.horizon)
        kept = torch.from_numpy(self._layout.depth >= self.windows.level[step])
        return self._material.objective.count(target[kept])

    def snapshot(self, seat: Seat) -> int:
        """A snapshot's number in the sequence."""
        return int(self._newest[seat[0]]) - (len(self.windows.level) - 1 - seat[1])

    def level(self, seat: Seat) -> int:
        return self.windows.level[seat[1]]

    def rows(self, seat: Seat) -> int:
        return int(self._layout.rows[self.level(seat), self._rank])

    def counts(self, seat: Seat) -> list[int]:
        found: list[int] = self._layout.rows[self.level(seat)].tolist()
        return found

    def route(self, seat: Seat) -> Route:
        return self.stock.route(self.snapshot(seat), self.level(seat))

    def number(self, task: Task) -> None:
        """REMAP on the host: a snapshot in the epoch's numbers, before it is sent."""
        if self._comes(seat := (task.unit, task.step)):
            self.stock.number(self.snapshot(seat), self._level_there(seat))

    def bring(self, task: Task) -> None:
        """H2D. Where a segment begins in this epoch, and did not in the one that was planned, snapshots come when they are read."""
        if self._comes(seat := (task.unit, task.step)):
            self._bring(seat)

    def _bring(self, seat: Seat) -> None:
        number, level = self.snapshot(seat), self._level_there(seat)
        self._there[seat] = self.stock.rows(number, level).to(self.device, self.shares), level
        self.stock.drop(number, level)

    def _level_there(self, seat: Seat) -> int:
        return self.level(seat) if self.windows.shrinks else 0

    def _comes(self, seat: Seat) -> bool:
        """Whether the window before has not left the snapshot on the device, or less of it."""
        unit, step = seat
        if unit in self._first or step + 1 == len(self.windows.level):
            return True
        return self.windows.shrinks and self.windows.level[step] < self.windows.level[step + 1]

    def remap(self, task: Task) -> None:
        """REMAP on the device: what is kept of a snapshot, built anew."""
        seat = task.unit, task.step
        own, remote = self.stock.kept(self.snapshot(seat), self.level(seat))
        rows, edges, halo = self.stock.size(self.snapshot(seat), self.level(seat))
        whole = self._on_device(seat)
        graph = whole.full.graph
        uses(graph.indptr, graph.indices, graph.values, whole.full.scale, whole.features)
        self._built[seat] = remapped(whole, sent(own, self.device), sent(remote, self.device), rows, halo, edges + rows)

    def held(self, seat: Seat) -> tuple[Full, Tensor]:
        """Cut to what its age leaves of it."""
        found = self._built[seat] if seat in self._built else self._on_device(seat)
        return found.full, found.features

    def _on_device(self, seat: Seat) -> Rows:
        unit, step = seat
        if seat not in self._there:
            before = None if self._comes(seat) else self._there.pop((unit - 1, step + 1), None)
            if before is None:
                self._bring(seat)
            else:
                self._there[seat] = self._cut(*before, seat)
        self._there.pop((unit - 1, step + 1), None)
        return self._there[seat][0]

    def _cut(self, rows: Rows, level: int, seat: Seat) -> tuple[Rows, int]:
        now = self._level_there(seat)
        if now == level:
            return rows, level
        own, edges, halo = self.stock.size(self.snapshot(seat), now)
        graph, features = rows.full.graph, rows.features
        # Copies, so that what goes gives its memory back.
        remote = graph.num_cols > graph.num_rows
        left = torch.cat([features[:own], features[graph.num_rows :][:halo]]) if remote else features[:own].clone()
        scale = None if rows.full.scale is None else rows.full.scale[:own].clone()
        return Rows(Full(shrink(graph, own, halo, edges + own), scale), left), now

    def read(self, seat: Seat) -> None:
        """Features stay for as long as their snapshot."""

    def done(self, seat: Seat) -> None:
        self._built.pop(seat, None)
        if seat[1] == 0 or seat[0] + 1 in self._first or seat[0] + 1 == len(self._newest):
            self._there.pop(seat, None)

    def ended(self, unit: int) -> None:
        """A window has been trained on."""
        self.cells.clear()
        if unit + 1 in self._first or not self.windows.inherits:
            self.states.forget()

    def predicts(self, step: int) -> bool:
        """Where weights evolve every snapshot, else the newest; as published, every one."""
        return self.shape.predicts_each or self.windows.each or step + 1 == len(self.windows.level)

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Own rows of the mean over all rows that a window predicts. As published: the mean over snapshots of each rank's own mean, times
        its share of the nodes, and averaged over ranks."""
        aim, seat = self._material.objective, (task.unit, task.step)
        target = self.stock.target(self.snapshot(seat) + self.windows.horizon, self.level(seat))
        predicted = self.model.readout(output)
        if self.windows.each:
            nodes = self._layout.rows[0]
            share = float(nodes[self._rank] / nodes.sum()) / len(nodes)
            return aim.total(predicted, target) / max(aim.count(target), 1) * share / len(self.windows.level)
        total = sum(count for step, count in enumerate(self._predicted) if self.predicts(step))
        return aim.total(predicted, target) / total

    def begins(self, task: Task, last: Cell | None) -> list[Tensor] | None:
        """Where inherited states are put behind those of `last`, and nothing else reads these, they go."""
        before = None if last is None else [part.detach() for part in last.after or ()]
        if last is not None and not self.windows.shrinks:  # rows are no prefixes: the gradient has to find them
            return [part.requires_grad_() for part in before or ()]
        joined = self.states.joined(task.step, task.layer, before)
        if joined is None:
            return None
        unread = task.layer + 1 == self.shape.layers and not self.predicts(task.step - 1)
        if last is not None and last.after is not None and unread and self._copied(task.step):
            last.edges, last.after = [get_gradient_edge(part) for part in last.after], None
        return [part.detach().requires_grad_(last is not None) for part in joined]

    def state(self, task: Task, begins: list[Tensor] | None) -> list[Tensor] | None:
        if self.windows.shrinks:
            return begins
        return self.states.joined(task.step, task.layer, begins if task.step else None)

    def _copied(self, step: int) -> bool:
        """Whether more is kept of a place's snapshot than of the one before it."""
        return not self.shape.evolves_weights and self.windows.level[step - 1] > self.windows.level[step]

    def ends(self, task: Task, after: list[Tensor]) -> None:
        self.states.keep(task.step, task.layer, after)


def first_of(segments: list[range]) -> tuple[Int64, set[int]]:
    """The newest snapshot of every window, and which windows begin a segment."""
    newest = np.concatenate([np.arange(one.start, one.stop) for one in segments])
    return newest, set(np.cumsum([0, *(len(one) for one in segments)])[:-1].tolist())
