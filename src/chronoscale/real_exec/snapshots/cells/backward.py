"""Backward: a cell's gradient pass, in one go or in two halves, and the losses that gradients start from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from chronoscale.real_exec.lanes import uses
from chronoscale.real_exec.program import Losses
from chronoscale.real_exec.snapshots.cells.cell import Cell, Grid, gradient
from chronoscale.real_exec.task import Task


class Backward:
    """`goals`, a row a node, is what own rows of a snapshot (unit, step) predict; `groups` counts those of an iteration, over all ranks."""

    def __init__(self, grid: Grid, goals: Mapping[tuple[int, int], Tensor], groups: Mapping[int, int]) -> None:
        self._grid, self._goals, self._groups = grid, goals, groups
        self.losses = Losses()

    def run(self, task: Task, cell: Cell) -> None:
        """BACKWARD: leaves gradients in the cell's leaves and the parameters, and drops what no later row reads."""
        if cell.halves:  # attention's remote readers have returned their gradients of the transformation
            assert cell.wide is not None and cell.dense is not None
            uses(cell.wide.grad)
            torch.autograd.backward(cell.dense, gradient(cell.wide)[: self._grid.region.rows])
            cell.wide = None
            return self._done(task, cell)
        splits = self._grid.shape.transforms_first and cell.wide is not None
        torch.autograd.backward(*self._roots(task, cell))
        cell.halves, cell.sum, cell.after, cell.after_grad = 1, None, None, None
        if cell.summary is None or task.layer == 0:
            cell.summary = cell.picked = None
        if not splits:
            self._done(task, cell)

    def _roots(self, task: Task, cell: Cell) -> tuple[list[Tensor], list[Tensor | None]]:
        """What a cell's gradient pass starts from: its loss, the layer above and the next snapshot, whichever there are."""
        grid, (unit, step, layer) = self._grid, (task.unit, task.step, task.layer)
        roots: list[Tensor] = []
        gradients: list[Tensor | None] = []
        if layer + 1 == grid.shape.layers and grid.predicts(step):
            roots.append(self._share(task, grid.output(unit, step, layer)))
            gradients.append(None)
        elif layer + 1 < grid.shape.layers:
            above = grid.cells[unit, step, layer + 1].down
            assert above is not None
            uses(above.grad)
            roots.append(grid.output(unit, step, layer))
            gradients.append(gradient(above)[: grid.region.rows])
        after = grid.cells.get((unit, step + 1, layer))
        if cell.after_grad is None and after is not None and after.before is not None:
            cell.after_grad, after.before = [gradient(part) for part in after.before], None
        if cell.after_grad is not None:
            assert cell.after is not None
            uses(*cell.after_grad)
            roots += cell.after
            gradients += cell.after_grad
        return roots, gradients

    def _share(self, task: Task, output: Tensor) -> Tensor:
        """This rank's rows of the mean over what nodes, snapshots and groups predict."""
        grid, aim = self._grid, self._grid.region.objective
        total = aim.total(grid.model.readout(output), self._goals[task.unit, task.step])
        predictions = grid.hyper.group_size if grid.shape.predicts_each else 1
        loss = total / (aim.predictions * predictions * self._groups[task.iteration])
        self.losses.add(task.iteration, loss)
        return loss

    def _done(self, task: Task, cell: Cell) -> None:
        cell.dense = None
        if task.layer + 1 < self._grid.shape.layers:
            above = self._grid.cells[task.unit, task.step, task.layer + 1]
            above.x = above.wide = None
        if task.layer == 0:
            cell.x = None
            del self._grid.held[task.unit, task.step]
