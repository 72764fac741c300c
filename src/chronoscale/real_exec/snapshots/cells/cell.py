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
from chronoscale.real_exec.execution.transfers import record_use
from chronoscale.real_exec.snapshots.folds import SpreadRows
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, SnapshotModel
from chronoscale.real_exec.snapshots.objective import Objective
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cell_memory import output_stage


@dataclass(slots=True)
class Cell:
    """Tensors of one snapshot and layer of a group on one rank, where groups, or their rows, are spread over ranks.

    N own rows (nodes), C with other ranks' (remote) ones behind them, D input features, H hidden ones. Leaves collect gradients where
    something is trained below them.
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
        """Return the leaf tensor of a cell that holds the gradient for the layer below; own rows come first. None before it is computed."""
        return self.x if self.x is not None else self.wide

    def drop_inputs(self) -> None:
        """Release the rows that a cell has read, once its gradient pass has run; their gradients stay, for the layer below and other
        ranks."""
        for leaf in (self.x, self.wide):
            if leaf is not None and leaf.grad is not None:
                leaf.data = leaf.data.new_empty(0)


def gradient(leaf: Tensor) -> Tensor:
    """Return the gradient of a cell's leaf tensor, on one rank; zeros where nothing that is trained reads it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


SnapshotKey = tuple[int, int]  # (unit, step)


class CellGrid(ABC):
    """Cells (the tensors of a snapshot and layer) of one rank, and the snapshots on its device, between rows of the schedule.

    A subclass, one for each kind of schedule, says what there is of a snapshot: how many rows (nodes), where other ranks' rows come from,
    what state it begins with, what it predicts. A snapshot's key is (unit, step): its group or window, and its place there.
    """

    def __init__(self, model: SnapshotModel, device: torch.device) -> None:
        self.model, self.device = model, device
        self.shape, self.shares = model.shape, True  # as `Full.to`
        self.cells: defaultdict[tuple[int, int, int], Cell] = defaultdict(Cell)  # (unit, step, layer)
        self.losses = Losses()
        self.beside: dict[SnapshotKey, tuple[Tensor, Tensor]] = {}  # readouts of the ranks before and after this one, gathered

    @abstractmethod
    def rows(self, key: SnapshotKey) -> int:
        """Return how many nodes of a snapshot this rank computes (its own rows). key: (unit, step)."""

    @abstractmethod
    def counts(self, key: SnapshotKey) -> list[int]:
        """Return how many nodes of a snapshot each rank computes. key: (unit, step)."""

    @abstractmethod
    def route(self, key: SnapshotKey) -> Route:
        """Return which rows of a snapshot this rank exchanges with which others. key: (unit, step)."""

    @abstractmethod
    def transfer(self, task: Task) -> None:
        """Copy a snapshot and its input features to this rank's device (H2D)."""

    @abstractmethod
    def on_device(self, key: SnapshotKey) -> tuple[Full, Tensor]:
        """Return a snapshot's adjacency, and its input features [rows, F], on this rank's device. key: (unit, step)."""

    @abstractmethod
    def drop_features(self, key: SnapshotKey) -> None:
        """Release a snapshot's input features on this rank's device: they have been read, and have no gradient."""

    @abstractmethod
    def drop_snapshot(self, key: SnapshotKey) -> None:
        """Release a snapshot on this rank's device: its last gradient row is done."""

    @abstractmethod
    def predicts(self, step: int) -> bool:
        """Return whether the snapshot at a step of its group or window has a prediction and a loss."""

    @abstractmethod
    def share(self, task: Task, output: Tensor) -> Tensor:
        """Return what this rank's outputs [N, H] for a snapshot add to the loss of the iteration, a scalar."""

    def total(self, task: Task, output: Tensor, objective: Objective, target: Tensor) -> Tensor:
        """Return this rank's part of the summed losses of what a snapshot's outputs [N, H] predict, a scalar.

        Where readouts of all ranks were gathered, since an edge's loss needs both ends, each rank computes the whole. Its part of the value
        is one of as many as there are ranks; its gradient is undivided, as it reaches the rank's own rows alone.
        """
        key, own = (task.unit, task.step), self.model.predict(output, self.spread(task.unit))
        if key not in self.beside:
            return objective.total(own, target)
        before, after = self.beside.pop(key)
        record_use(before, after)
        whole = objective.total(torch.cat([before, own, after]), target)
        return whole - whole.detach() * (1 - 1 / len(self.counts(key)))

    def spread(self, unit: int) -> SpreadRows | None:
        """Return how every node has its row of a group or window; by default None: it has its own."""
        return None

    def initial_state(self, task: Task, last: Cell | None) -> list[Tensor] | None:
        """Return the recurrent state that a snapshot of a group goes on from on this rank, as leaf tensors; None for zero.

        last: the cell of the snapshot before, whose state it is.
        """
        if last is None:
            return None
        assert last.after is not None
        return [part.detach().requires_grad_() for part in last.after]

    def whole_state(self, task: Task, begins: list[Tensor] | None) -> list[Tensor] | None:
        """Return the whole recurrent state that a snapshot goes on from, made of the leaf tensors that it begins with (`initial_state`); by
        default these.
        """
        return begins

    def keep_state(self, task: Task, after: list[Tensor]) -> None:
        """Keep on this rank, for later windows, the recurrent state after a snapshot; by default nothing."""
        return None

    def at(self, task: Task) -> Cell:
        """Return the tensors of the snapshot and layer that a row of the schedule computes on."""
        return self.cells[task.unit, task.step, task.layer]

    def constant(self, layer: int) -> bool:
        """Return whether a layer aggregates inputs that nothing trained has made, so that no gradient goes below."""
        return layer == 0 and not self.shape.transforms_first

    def input(self, task: Task, cell: Cell) -> Tensor:
        """Return what a cell reads of this rank's own nodes, [N, D]: input features, or a leaf cut from the layer below."""
        if cell.x is None:
            below = self.on_device((task.unit, task.step))[1] if task.layer == 0 else self.output(task.unit, task.step, task.layer - 1)
            cell.x = below.detach().contiguous().requires_grad_(task.layer > 0)
        return cell.x

    def output(self, unit: int, step: int, layer: int) -> Tensor:
        """Return the output of a computed snapshot and layer to the layer above, [N, H], on this rank."""
        cell, block = self.cells[unit, step, layer], self.model.block(layer)
        if not isinstance(block, EvolvingBlock) and block.step is not None:
            assert cell.after is not None
            return block.step.output((cell.after[0], cell.after[-1]))
        result = cell.sum if output_stage(self.shape, layer) is Op.AGGREGATE else cell.dense
        assert result is not None
        return result
