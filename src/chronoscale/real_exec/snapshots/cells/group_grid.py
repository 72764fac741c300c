"""GroupGrid: the cells of snapshot groups, which begin from the zero state and have the same rows in every snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.cell import CellGrid, SnapshotKey
from chronoscale.real_exec.snapshots.folds import UNFOLDED, Fold, SpreadRows
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Region, Route
from chronoscale.strategies.workload import Hyper


class GroupGrid(CellGrid):
    """Cells of one rank for snapshot groups that are spread over ranks: they begin from the zero state and have the same nodes in every
    snapshot.

    groups: how many an iteration has, over all ranks; its loss is their mean. goals, set before training: what own rows of a snapshot
    predict, a row a node, or pairs of nodes. folds: by group, on which rows it is computed, where not every node has its own.
    """

    def __init__(self, region: Region, model: SnapshotModel, hyper: Hyper, groups: Mapping[int, int], device: torch.device) -> None:
        super().__init__(model, device)
        self.region = region
        self._hyper = hyper
        self._groups = groups
        self.goals: Mapping[SnapshotKey, Tensor] = {}
        self.folds: Mapping[int, Fold] = {}
        self._spread: dict[int, SpreadRows | None] = {}
        self._held: dict[SnapshotKey, tuple[Full, Tensor]] = {}

    def snapshot(self, key: SnapshotKey) -> int:
        """Return the number in the sequence of a group's snapshot. key: (group, step)."""
        return key[0] * self._hyper.stride + key[1]

    def fold(self, unit: int) -> Fold:
        """Return on which rows a group is computed."""
        return self.folds.get(unit, UNFOLDED)

    def spread(self, unit: int) -> SpreadRows | None:
        if unit not in self._spread:
            self._spread[unit] = self.region.spread(self.fold(unit), self.device)
        return self._spread[unit]

    def rows(self, key: SnapshotKey) -> int:
        return self.fold(key[0]).rows or self.region.rows

    def counts(self, key: SnapshotKey) -> list[int]:
        rows = self.fold(key[0]).rows
        return [rows] if rows else self.region.counts

    def route(self, key: SnapshotKey) -> Route:
        route = self.region.route(self.snapshot(key))
        assert route is not None
        return route

    def transfer(self, task: Task) -> None:
        number, fold = self.snapshot((task.unit, task.step)), self.fold(task.unit)
        features = self.region.features(number, fold)
        copy = self.region.graph(number, fold).to(self.device, self.shares)
        held = features.clone() if self.device.type == "cpu" else features.to(self.device, non_blocking=True)
        self._held[task.unit, task.step] = copy, held

    def on_device(self, key: SnapshotKey) -> tuple[Full, Tensor]:
        return self._held[key]

    def drop_features(self, key: SnapshotKey) -> None:
        graph, features = self._held[key]
        self._held[key] = graph, features.new_empty(0)

    def drop_snapshot(self, key: SnapshotKey) -> None:
        del self._held[key]

    def predicts(self, step: int) -> bool:
        return self.shape.predicts_each or step == self._hyper.group_size - 1

    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return this rank's part of the iteration's loss from a snapshot's outputs [N, H]: of the mean over all predictions of nodes,
        snapshots and groups.
        """
        objective = self.region.objective
        total = self.total(task, output, objective, self.goals[task.unit, task.step])
        whole = objective.predictions(self.snapshot((task.unit, task.step)) + self._hyper.horizon)
        predictions = self._hyper.group_size if self.shape.predicts_each else 1
        return total / (max(whole, 1) * predictions * self._groups[task.iteration])
