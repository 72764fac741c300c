"""CellForward: a cell's stages, as rows of their own, or all at once where the gradient pass computes a cell again."""

from __future__ import annotations

import torch

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import record_use
from chronoscale.real_exec.snapshots.cells.cell import Cell, CellGrid
from chronoscale.real_exec.snapshots.model import Block, EvolvingBlock, GatBlock, State
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cell_memory import output_stage, stages


class CellForward:
    """Forward rows of snapshot groups or windows that are spread over ranks, on one rank, cell by cell (snapshot and layer).

    recomputes: rows save only a cell's inputs, and `recompute` computes the remaining tensors again, with gradients.
    """

    def __init__(self, grid: CellGrid, recomputes: bool) -> None:
        self._grid, self._recomputes = grid, recomputes

    def transfer(self, task: Task, cell: Cell) -> None:
        """Copy the snapshot of an H2D row, and its input features, to this rank's device."""
        self._grid.transfer(task)

    def stage(self, task: Task, cell: Cell) -> None:
        """Compute one stage of a snapshot and layer on this rank: AGGREGATE, TRANSFORM or TEMPORAL, whichever the row is."""
        with torch.set_grad_enabled(not self._recomputes):
            self._compute(task.op, task, cell)
        last = output_stage(self._grid.shape, task.layer)
        if task.op is last and self._recomputes:  # what FORWARD makes again goes
            cell.dense = cell.dense if last is Op.TRANSFORM else None
            cell.sum = cell.sum if last is Op.AGGREGATE or self._grid.constant(task.layer) else None

    def recompute(self, task: Task, cell: Cell) -> None:
        """Compute all stages of a snapshot and layer again, with gradients, for the gradient pass that follows (FORWARD row)."""
        for op in stages(self._grid.shape, task.layer):
            if op is not Op.AGGREGATE or not self._grid.constant(task.layer):
                self._compute(op, task, cell)

    def _compute(self, op: Op, task: Task, cell: Cell) -> None:
        block = self._grid.model.block(task.layer)
        if op is Op.AGGREGATE:
            self._aggregate(task, cell, block)
        elif op is Op.TEMPORAL:
            self._recur(task, cell, block)
        else:
            self._transform(task, cell, block)

    def _aggregate(self, task: Task, cell: Cell, block: Block) -> None:
        grid = self._grid
        key = task.unit, task.step
        held, features = grid.on_device(key)
        graph, rows = held.graph, grid.rows(key)
        record_use(graph.indptr, graph.indices, graph.values, held.scale, features, cell.wide)
        if isinstance(block, GatBlock):
            z = cell.wide if cell.wide is not None else cell.dense
            assert z is not None
            left, right = block.scores(z)
            cell.sum = block.finish(attention(graph, z, left, right[:rows]).output())
            return
        x = cell.wide if cell.wide is not None else grid.input(task, cell)
        assert held.scale is not None
        cell.sum = aggregation.aggregate(graph, x) * held.scale[:, None]
        if isinstance(block, EvolvingBlock) and grid.shape.summarises:
            cell.picked = block.candidates(x[:rows])[0]
        if task.layer == 0:  # features have no gradient and no other reader
            cell.x = cell.wide = None
            grid.drop_features(key)

    def _recur(self, task: Task, cell: Cell, block: Block) -> None:
        grid = self._grid
        if cell.before is None:
            cell.before = grid.initial_state(task, grid.cells[task.unit, task.step - 1, task.layer] if task.step else None)
        whole = grid.whole_state(task, cell.before)
        record_use(*(whole or []), cell.summary)
        before: State | None = None if whole is None else (whole[0], whole[-1])
        if isinstance(block, EvolvingBlock):
            state = block.evolve(before, cell.summary if cell.summary is not None else cell.picked)
        else:
            z = cell.sum if isinstance(block, GatBlock) else cell.dense
            assert z is not None and block.step is not None
            state = block.step(z, before)
        cell.after = list(state if grid.shape.temporal == "lstm" else state[:1])
        grid.keep_state(task, cell.after)

    def _transform(self, task: Task, cell: Cell, block: Block) -> None:
        if isinstance(block, GatBlock):
            cell.dense = block.transform(self._grid.input(task, cell))
            return
        assert cell.sum is not None
        if isinstance(block, EvolvingBlock):
            assert cell.after is not None
            cell.dense = block.transform(cell.sum, (cell.after[0], cell.after[-1]))
        else:
            cell.dense = block.transform(cell.sum)
