"""SampledGrid: the cells of windows of sampled snapshots. A unit is a window; the first layer's aggregates outlive it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.sampling import NeighbourSampling
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.cell import Cell, Grid, Seat
from chronoscale.real_exec.snapshots.material import Full, Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.real_exec.snapshots.sampled.share import Share
from chronoscale.strategies.workload import Hyper


class SampledGrid(Grid):
    """Of one rank. `snapshots`: how many windows slide over. `begin` is called before every epoch."""

    def __init__(self, share: Share, snapshots: int, material: Material, model: SnapshotModel, hyper: Hyper, device: torch.device) -> None:
        super().__init__(model, device)
        self.stock, self._snapshots, self._material, self._hyper = share, snapshots, material, hyper
        self.length = hyper.recency.decay.window
        self._there: dict[int, tuple[Full, Tensor, Route]] = {}  # by snapshot
        self.sums: dict[int, Tensor] = {}  # normalised, of the first layer, by snapshot

    def begin(self, sampling: NeighbourSampling) -> None:
        """An epoch, by what it draws."""
        self.stock.begin(sampling)
        self.cells.clear()
        self._there.clear()
        self.sums.clear()

    def snapshot(self, seat: Seat) -> int:
        """A snapshot's number in the sequence."""
        return seat[0] + seat[1]

    def rows(self, seat: Seat) -> int:
        return len(self.stock.own)

    def counts(self, seat: Seat) -> list[int]:
        found: list[int] = np.diff(self.stock.layout.offset).tolist()
        return found

    def route(self, seat: Seat) -> Route:
        return self._there[self.snapshot(seat)][2]

    def bring(self, task: Task) -> None:
        number = self.snapshot((task.unit, task.step))
        sample, features = self.stock.take(number)
        held = features.clone() if self.device.type == "cpu" else sent(features, self.device)
        self._there[number] = sample.full.to(self.device, self.shares), held, sample.route

    def held(self, seat: Seat) -> tuple[Full, Tensor]:
        return self._there[self.snapshot(seat)][:2]

    def read(self, seat: Seat) -> None:
        full, features, route = self._there[self.snapshot(seat)]
        self._there[self.snapshot(seat)] = full, features.new_empty(0), route
        if self.shape.layers == 1:  # nothing reads the adjacency again
            del self._there[self.snapshot(seat)]

    def cache(self, task: Task, cell: Cell) -> None:
        """Keep what the first layer has aggregated of a snapshot; or give it to a later window's cell."""
        number = self.snapshot((task.unit, task.step))
        if cell.sum is None:
            cell.sum = self.sums[number]
        self.sums[number] = cell.sum

    def done(self, seat: Seat) -> None:
        if seat[1] == 0 or seat[0] + self.length == self._snapshots:
            self.sums.pop(self.snapshot(seat))
            self._there.pop(self.snapshot(seat), None)

    def predicts(self, step: int) -> bool:
        """Where weights evolve every snapshot, else the newest."""
        return self.shape.predicts_each or step + 1 == self.length

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Own rows of the mean over all that a window predicts."""
        aim, number = self._material.objective, self.snapshot((task.unit, task.step))
        total = aim.total(self.model.readout(output), self.stock.target(number + self._hyper.horizon))
        return total / (aim.predictions * (self.length if self.shape.predicts_each else 1))
