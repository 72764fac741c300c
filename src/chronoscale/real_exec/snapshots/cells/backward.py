"""CellBackward: a cell's gradient pass, in one go or in two halves, and the losses that gradients start from."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import record_use
from chronoscale.real_exec.snapshots.cells.cell import Cell, CellGrid, gradient


class CellBackward:
    """BACKWARD rows of snapshot groups that are spread over ranks: the gradient pass of each cell (snapshot and layer) on one rank."""

    def __init__(self, grid: CellGrid) -> None:
        self._grid = grid

    def run(self, task: Task, cell: Cell) -> None:
        """Run the gradient pass of a cell (a snapshot and layer of a group): leave gradients in its leaves and in the parameters, and drop
        what no later row reads.

        task: the BACKWARD row. Attention's cells whose rows other ranks read take two rows, with an exchange of gradients between them.
        """
        if cell.halves:  # attention's remote readers have returned their gradients of the transformation
            assert cell.wide is not None and cell.dense is not None
            torch.autograd.backward(cell.dense, gradient(cell.wide)[: self._grid.rows((task.unit, task.step))])
            cell.wide = None
            return self._done(task, cell)
        splits = self._grid.shape.transforms_first and cell.wide is not None
        roots, gradients = self._roots(task, cell)
        torch.autograd.backward(tuple(roots), gradients)  # type: ignore[arg-type]  # tensors and edges may stand together
        cell.halves = 1
        cell.drop_inputs()
        cell.sum = None
        cell.after = None
        cell.after_grad = None
        cell.edges = None
        if cell.summary is None or task.layer == 0:
            cell.summary = cell.picked = None
        if not splits:
            self._done(task, cell)

    def _roots(self, task: Task, cell: Cell) -> tuple[list[Tensor | GradientEdge], list[Tensor | None]]:
        """Return the tensors that a cell's gradient pass starts from, and their gradients: its loss, the layer above, the next snapshot,
        whichever there are."""
        grid, (unit, step, layer) = self._grid, (task.unit, task.step, task.layer)
        roots: list[Tensor | GradientEdge] = []
        gradients: list[Tensor | None] = []
        if layer + 1 == grid.shape.layers and grid.predicts(step):
            loss = grid.share(task, grid.output(unit, step, layer))
            grid.losses.add(task.iteration, loss)
            roots.append(loss)
            gradients.append(None)
        elif layer + 1 < grid.shape.layers:
            above = grid.cells[unit, step, layer + 1].down
            assert above is not None
            roots.append(grid.output(unit, step, layer))
            gradients.append(gradient(above)[: grid.rows((unit, step))])
        after = grid.cells.get((unit, step + 1, layer))
        if cell.after_grad is None and after is not None and after.before is not None:
            rows = None if grid.shape.evolves_weights else grid.rows((unit, step))
            cell.after_grad, after.before = [_fit_rows(gradient(part), rows) for part in after.before], None
        if cell.after_grad is not None:
            record_use(*cell.after_grad)
            roots += cell.edges or cell.after or ()
            gradients += cell.after_grad
        return roots, gradients

    def _done(self, task: Task, cell: Cell) -> None:
        cell.dense = None
        if task.layer + 1 < self._grid.shape.layers:
            above = self._grid.cells[task.unit, task.step, task.layer + 1]
            above.x = above.wide = None
        if task.layer == 0:
            cell.x = None
            self._grid.drop_snapshot((task.unit, task.step))


def _fit_rows(into: Tensor, rows: int | None) -> Tensor:
    """Return the gradient of a state of `rows` rows (None: as many as it has).

    The next snapshot has read only the first rows of the state, or its own state also holds rows that come from elsewhere.
    """
    if rows is None or len(into) >= rows:
        return into[:rows]
    return torch.cat([into, into.new_zeros(rows - len(into), into.shape[1])])
