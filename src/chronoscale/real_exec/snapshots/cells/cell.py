"""Cell: what is held of one snapshot and layer of a group; and the grid of them, which the parts of a program work on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, SnapshotModel
from chronoscale.real_exec.snapshots.region import Region
from chronoscale.real_exec.task import Task
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cells import output
from chronoscale.strategies.workload import Hyper


@dataclass(slots=True)
class Cell:
    """N own rows, C with remote ones behind them, D input features, H hidden ones. Leaves collect gradients where something is trained
    below them."""

    x: Tensor | None = None  # [N, D], leaf: own rows of the layer below
    wide: Tensor | None = None  # [C, ·], leaf: what neighbours are read for, own and remote; only where rows are exchanged
    before: list[Tensor] | None = None  # state of the snapshot before, leaves; None for the first
    picked: Tensor | None = None  # own candidates of the summary, on the graph of x or wide
    summary: Tensor | None = None  # leaf: every rank's candidates
    sum: Tensor | None = None  # aggregated, or attended
    dense: Tensor | None = None  # transformed
    after: list[Tensor] | None = None  # state
    after_grad: list[Tensor] | None = None  # its gradient, received
    halves: int = 0  # gradient passes done

    @property
    def down(self) -> Tensor | None:
        """The leaf that holds the gradient of the layer below: own rows come first."""
        return self.x if self.x is not None else self.wide


def gradient(leaf: Tensor) -> Tensor:
    """A leaf's gradient; zeros where nothing that is trained reads it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


class Grid:
    """One rank's cells and the snapshots on its device, between rows."""

    def __init__(self, region: Region, model: SnapshotModel, hyper: Hyper, device: torch.device) -> None:
        self.region, self.model, self.hyper, self.device = region, model, hyper, device
        self.shape, self.shares = model.shape, True  # as `Full.to`
        self.cells: defaultdict[tuple[int, int, int], Cell] = defaultdict(Cell)  # (unit, step, layer)
        self.held: dict[tuple[int, int], tuple[Full, Tensor]] = {}  # (unit, step): adjacency, input features

    def at(self, task: Task) -> Cell:
        """The cell of a row."""
        return self.cells[task.unit, task.step, task.layer]

    def snapshot(self, unit: int, step: int) -> int:
        """A snapshot's number in the sequence."""
        return unit * self.hyper.stride + step

    def predicts(self, step: int) -> bool:
        """Whether a group's snapshot has a prediction and a loss."""
        return self.shape.predicts_each or step == self.hyper.group_size - 1

    def constant(self, layer: int) -> bool:
        """Whether nothing that is trained lies below the aggregation."""
        return layer == 0 and not self.shape.transforms_first

    def input(self, task: Task, cell: Cell) -> Tensor:
        """Own rows that the cell reads, [N, D]: features, or a leaf of the layer below."""
        if cell.x is None:
            below = self.held[task.unit, task.step][1] if task.layer == 0 else self.output(task.unit, task.step, task.layer - 1)
            cell.x = below.detach().contiguous().requires_grad_(task.layer > 0)
        return cell.x

    def output(self, unit: int, step: int, layer: int) -> Tensor:
        """What a cell hands to the layer above, [N, H]."""
        cell, block = self.cells[unit, step, layer], self.model.block(layer)
        if not isinstance(block, EvolvingBlock) and block.step is not None:
            assert cell.after is not None
            return block.step.output((cell.after[0], cell.after[-1]))
        made = cell.sum if output(self.shape, layer) is Op.AGGREGATE else cell.dense
        assert made is not None
        return made
