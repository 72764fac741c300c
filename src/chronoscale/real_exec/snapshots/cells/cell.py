"""Cell: the tensors of one snapshot and layer of a group; and the grid of cells that the parts of a program work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from chronoscale.real_exec.execution.losses import Losses
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cell_memory import output_stage


@dataclass(slots=True)
class Cell:
    """Tensors of one snapshot and layer of a group.

    N own rows, C with remote ones behind them, D input features, H hidden ones. Leaves collect gradients where something is trained below
    them.
    """

    x: Tensor | None = None  # [N, D], leaf: own rows of the layer below
    wide: Tensor | None = None  # [C, ·], leaf: what neighbours are read for, own and remote; only where rows are exchanged
    before: list[Tensor] | None = None  # state of the snapshot before, leaves; None for the first
    picked: Tensor | None = None  # own candidates of the summary, on the graph of x or wide
    summary: Tensor | None = None  # leaf: every rank's candidates
    sum: Tensor | None = None  # aggregated, or attended
    dense: Tensor | None = None  # transformed
    after: list[Tensor] | None = None  # state
    edges: list[GradientEdge] | None = None  # where its gradient goes, once nothing reads the state itself
    after_grad: list[Tensor] | None = None  # its gradient, received
    halves: int = 0  # gradient passes done

    @property
    def down(self) -> Tensor | None:
        """Return the leaf that holds the gradient of the layer below; own rows come first."""
        return self.x if self.x is not None else self.wide


def gradient(leaf: Tensor) -> Tensor:
    """Return a leaf's gradient; zeros where nothing that is trained reads it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


SnapshotKey = tuple[int, int]  # (unit, step)


class CellGrid(ABC):
    """One rank's cells and the snapshots on its device, between rows.

    A subclass says what there is of a snapshot: how many rows, where remote ones come from, what state it begins with, what it predicts. A
    snapshot's key is (unit, step).
    """

    def __init__(self, model: SnapshotModel, device: torch.device) -> None:
        self.model, self.device = model, device
        self.shape, self.shares = model.shape, True  # as `Full.to`
        self.cells: defaultdict[tuple[int, int, int], Cell] = defaultdict(Cell)  # (unit, step, layer)
        self.losses = Losses()

    @abstractmethod
    def rows(self, key: SnapshotKey) -> int:
        """Return how many own rows a snapshot has."""

    @abstractmethod
    def counts(self, key: SnapshotKey) -> list[int]:
        """Return how many own rows each rank has of a snapshot."""

    @abstractmethod
    def route(self, key: SnapshotKey) -> Route:
        """Return how a snapshot's remote rows are exchanged."""

    @abstractmethod
    def transfer(self, task: Task) -> None:
        """Copy a snapshot and its input features to the device (H2D)."""

    @abstractmethod
    def on_device(self, key: SnapshotKey) -> tuple[Full, Tensor]:
        """Return a snapshot's adjacency and input features on the device."""

    @abstractmethod
    def drop_features(self, key: SnapshotKey) -> None:
        """Release a snapshot's input features: they have been read, and have no gradient."""

    @abstractmethod
    def drop_snapshot(self, key: SnapshotKey) -> None:
        """Release a snapshot: its last gradient row is done."""

    @abstractmethod
    def predicts(self, step: int) -> bool:
        """Return whether the snapshot of a step has a prediction and a loss."""

    @abstractmethod
    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return what own outputs [N, H] add to the loss of the iteration."""

    def initial_state(self, task: Task, last: Cell | None) -> list[Tensor] | None:
        """Return the state that a recurrence goes on from, as leaves: that of `last`, the cell of the snapshot before; None for zero."""
        if last is None:
            return None
        assert last.after is not None
        return [part.detach().requires_grad_() for part in last.after]

    def whole_state(self, task: Task, begins: list[Tensor] | None) -> list[Tensor] | None:
        """Return the whole state that a recurrence goes on from, of the leaves that it begins with."""
        return begins

    def keep_state(self, task: Task, after: list[Tensor]) -> None:
        """Keep, for later units, the state that a recurrence has come to; by default nothing."""
        return None

    def at(self, task: Task) -> Cell:
        """Return the cell of a row."""
        return self.cells[task.unit, task.step, task.layer]

    def constant(self, layer: int) -> bool:
        """Return whether nothing that is trained lies below a layer's aggregation."""
        return layer == 0 and not self.shape.transforms_first

    def input(self, task: Task, cell: Cell) -> Tensor:
        """Return the own rows that a cell reads, [N, D]: features, or a leaf of the layer below."""
        if cell.x is None:
            below = self.on_device((task.unit, task.step))[1] if task.layer == 0 else self.output(task.unit, task.step, task.layer - 1)
            cell.x = below.detach().contiguous().requires_grad_(task.layer > 0)
        return cell.x

    def output(self, unit: int, step: int, layer: int) -> Tensor:
        """Return what a cell hands to the layer above, [N, H]."""
        cell, block = self.cells[unit, step, layer], self.model.block(layer)
        if not isinstance(block, EvolvingBlock) and block.step is not None:
            assert cell.after is not None
            return block.step.output((cell.after[0], cell.after[-1]))
        result = cell.sum if output_stage(self.shape, layer) is Op.AGGREGATE else cell.dense
        assert result is not None
        return result
