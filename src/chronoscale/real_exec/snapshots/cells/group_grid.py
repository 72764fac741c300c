"""GroupGrid: the cells of snapshot groups, which begin from the zero state and have the same rows in every snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.cell import CellGrid, SnapshotKey
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Region, Route
from chronoscale.strategies.workload import Hyper


class GroupGrid(CellGrid):
    """The cells of one rank's snapshot groups.

    groups: how many an iteration has, over all ranks; its loss is their mean. goals, set before training: what own rows of a snapshot
    predict, a row a node.
    """

    def __init__(self, region: Region, model: SnapshotModel, hyper: Hyper, groups: Mapping[int, int], device: torch.device) -> None:
        super().__init__(model, device)
        self.region = region
        self._hyper = hyper
        self._groups = groups
        self.goals: Mapping[SnapshotKey, Tensor] = {}
        self._held: dict[SnapshotKey, tuple[Full, Tensor]] = {}

    def snapshot(self, seat: SnapshotKey) -> int:
        """Return a snapshot's number in the sequence."""
        return seat[0] * self._hyper.stride + seat[1]

    def rows(self, seat: SnapshotKey) -> int:
        return self.region.rows

    def counts(self, seat: SnapshotKey) -> list[int]:
        return self.region.counts

    def route(self, seat: SnapshotKey) -> Route:
        route = self.region.route(self.snapshot(seat))
        assert route is not None
        return route

    def transfer(self, task: Task) -> None:
        number = self.snapshot((task.unit, task.step))
        features = self.region.features(number)
        copy = self.region.graph(number).to(self.device, self.shares)
        held = features.clone() if self.device.type == "cpu" else features.to(self.device, non_blocking=True)
        self._held[task.unit, task.step] = copy, held

    def on_device(self, seat: SnapshotKey) -> tuple[Full, Tensor]:
        return self._held[seat]

    def drop_features(self, seat: SnapshotKey) -> None:
        graph, features = self._held[seat]
        self._held[seat] = graph, features.new_empty(0)

    def drop_snapshot(self, seat: SnapshotKey) -> None:
        del self._held[seat]

    def predicts(self, step: int) -> bool:
        return self.shape.predicts_each or step == self._hyper.group_size - 1

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return own rows' part of the mean over all predictions of nodes, snapshots and groups."""
        aim = self.region.objective
        total = aim.total(self.model.readout(output), self.goals[task.unit, task.step])
        predictions = self._hyper.group_size if self.shape.predicts_each else 1
        return total / (aim.predictions * predictions * self._groups[task.iteration])
