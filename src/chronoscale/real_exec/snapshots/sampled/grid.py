"""SampledGrid: the cells of windows of sampled snapshots. A unit is a window; the first layer's aggregates outlive it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.sampling import NeighbourSampling
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.snapshots.cells.cell import Cell, CellGrid, SnapshotKey
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.real_exec.snapshots.sampled.share import EpochShare
from chronoscale.strategies.workload import Hyper


class SampledGrid(CellGrid):
    """Cells (the tensors of a snapshot and layer) of one rank for windows of sampled snapshots. `begin` is called before every epoch.

    snapshots: how many the windows slide over.
    """

    def __init__(
        self, share: EpochShare, snapshots: int, material: SnapshotMaterial, model: SnapshotModel, hyper: Hyper, device: torch.device
    ) -> None:
        super().__init__(model, device)
        self.epoch_share = share
        self._snapshots = snapshots
        self._material = material
        self._hyper = hyper
        self.length = hyper.recency.decay.window
        self._there: dict[int, tuple[Full, Tensor, Route]] = {}  # by snapshot
        self.sums: dict[int, Tensor] = {}  # normalised, of the first layer, by snapshot

    def begin(self, sampling: NeighbourSampling) -> None:
        """Begin an epoch on this rank: drop what the last one left. sampling: the neighbours that this one draws."""
        self.epoch_share.begin(sampling)
        self.cells.clear()
        self._there.clear()
        self.sums.clear()

    def snapshot(self, key: SnapshotKey) -> int:
        """Return the number in the sequence of a window's snapshot. key: (window, step)."""
        return key[0] + key[1]

    def rows(self, key: SnapshotKey) -> int:
        return len(self.epoch_share.own)

    def counts(self, key: SnapshotKey) -> list[int]:
        counts: list[int] = np.diff(self.epoch_share.layout.offset).tolist()
        return counts

    def route(self, key: SnapshotKey) -> Route:
        return self._there[self.snapshot(key)][2]

    def transfer(self, task: Task) -> None:
        number = self.snapshot((task.unit, task.step))
        sample, features = self.epoch_share.take(number)
        held = features.clone() if self.device.type == "cpu" else to_device(features, self.device)
        self._there[number] = sample.full.to(self.device, self.shares), held, sample.route

    def on_device(self, key: SnapshotKey) -> tuple[Full, Tensor]:
        return self._there[self.snapshot(key)][:2]

    def drop_features(self, key: SnapshotKey) -> None:
        full, features, route = self._there[self.snapshot(key)]
        self._there[self.snapshot(key)] = full, features.new_empty(0), route
        if self.shape.layers == 1:  # nothing reads the adjacency again
            del self._there[self.snapshot(key)]

    def cache(self, task: Task, cell: Cell) -> None:
        """Keep what the first layer has aggregated of a snapshot, or take it for a later window's cell."""
        number = self.snapshot((task.unit, task.step))
        if cell.sum is None:
            cell.sum = self.sums[number]
        self.sums[number] = cell.sum

    def drop_snapshot(self, key: SnapshotKey) -> None:
        if key[1] == 0 or key[0] + self.length == self._snapshots:
            self.sums.pop(self.snapshot(key))
            self._there.pop(self.snapshot(key), None)

    def predicts(self, step: int) -> bool:
        """Return whether the snapshot at a step of a window has a prediction: every one where weights evolve, else the newest."""
        return self.shape.predicts_each or step + 1 == self.length

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return this rank's part of the loss of a window from a snapshot's outputs [N, H]: of the mean over all that the window
        predicts.
        """
        objective, goal = self._material.objective, self.snapshot((task.unit, task.step)) + self._hyper.horizon
        total = objective.total(self.model.readout(output), self.epoch_share.target(goal))
        return total / (objective.predictions(goal) * (self.length if self.shape.predicts_each else 1))
