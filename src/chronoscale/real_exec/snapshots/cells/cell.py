"""Cell: what is held of one snapshot and layer of a group; and the grid of them, which the parts of a program work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from chronoscale.real_exec.execution.program import Losses
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, SnapshotModel
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cell_memory import output_stage


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
    edges: list[GradientEdge] | None = None  # where its gradient goes, once nothing reads the state itself
    after_grad: list[Tensor] | None = None  # its gradient, received
    halves: int = 0  # gradient passes done

    @property
    def down(self) -> Tensor | None:
        """The leaf that holds the gradient of the layer below: own rows come first."""
        return self.x if self.x is not None else self.wide


def gradient(leaf: Tensor) -> Tensor:
    """A leaf's gradient; zeros where nothing that is trained reads it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


Seat = tuple[int, int]  # (unit, step)


class Grid(ABC):
    """One rank's cells and the snapshots on its device, between rows.

    A subclass says what there is of a snapshot: how many rows, where remote ones come from, what states it begins with, what it predicts.
    """

    def __init__(self, model: SnapshotModel, device: torch.device) -> None:
        self.model, self.device = model, device
        self.shape, self.shares = model.shape, True  # as `Full.to`
        self.cells: defaultdict[tuple[int, int, int], Cell] = defaultdict(Cell)  # (unit, step, layer)
        self.losses = Losses()

    @abstractmethod
    def rows(self, seat: Seat) -> int:
        """Own rows of a snapshot."""

    @abstractmethod
    def counts(self, seat: Seat) -> list[int]:
        """Own rows of every rank."""

    @abstractmethod
    def route(self, seat: Seat) -> Route:
        """How its remote rows come and go."""

    @abstractmethod
    def bring(self, task: Task) -> None:
        """H2D: a snapshot and its input features."""

    @abstractmethod
    def held(self, seat: Seat) -> tuple[Full, Tensor]:
        """Its adjacency and input features on the device."""

    @abstractmethod
    def read(self, seat: Seat) -> None:
        """Its input features have been read, and have no gradient."""

    @abstractmethod
    def done(self, seat: Seat) -> None:
        """Its last gradient row is done."""

    @abstractmethod
    def predicts(self, step: int) -> bool:
        """Whether it has a prediction and a loss."""

    @abstractmethod
    def share(self, task: Task, output: Tensor) -> Tensor:
        """What own outputs [N, H] add to the loss of the iteration."""

    def begins(self, task: Task, last: Cell | None) -> list[Tensor] | None:
        """The state that a recurrence goes on from, leaves: what `last`, the cell of the snapshot before, has come to; None for none."""
        if last is None:
            return None
        assert last.after is not None
        return [part.detach().requires_grad_() for part in last.after]

    def state(self, task: Task, begins: list[Tensor] | None) -> list[Tensor] | None:
        """The whole state that a recurrence goes on from, of what it `begins` with."""
        return begins

    def ends(self, task: Task, after: list[Tensor]) -> None:
        """The state that a recurrence has come to; nothing is done with it but what cells do."""
        return None

    def at(self, task: Task) -> Cell:
        """The cell of a row."""
        return self.cells[task.unit, task.step, task.layer]

    def constant(self, layer: int) -> bool:
        """Whether nothing that is trained lies below the aggregation."""
        return layer == 0 and not self.shape.transforms_first

    def input(self, task: Task, cell: Cell) -> Tensor:
        """Own rows that the cell reads, [N, D]: features, or a leaf of the layer below."""
        if cell.x is None:
            below = self.held((task.unit, task.step))[1] if task.layer == 0 else self.output(task.unit, task.step, task.layer - 1)
            cell.x = below.detach().contiguous().requires_grad_(task.layer > 0)
        return cell.x

    def output(self, unit: int, step: int, layer: int) -> Tensor:
        """What a cell hands to the layer above, [N, H]."""
        cell, block = self.cells[unit, step, layer], self.model.block(layer)
        if not isinstance(block, EvolvingBlock) and block.step is not None:
            assert cell.after is not None
            return block.step.output((cell.after[0], cell.after[-1]))
        made = cell.sum if output_stage(self.shape, layer) is Op.AGGREGATE else cell.dense
        assert made is not None
        return made
