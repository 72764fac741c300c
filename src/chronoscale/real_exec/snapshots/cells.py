"""Cells: executes the rows of groups that are spread over ranks, by snapshots (`esdg`) or by parts (`distdgl`).

A cell, one snapshot and layer of a group, is an autograd graph of its own. Its inputs are leaves; a BACKWARD row leaves gradients there,
and other rows carry them on: to the cell below, to the cell before, or to other ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext import ops
from chronoscale.cuda_ext.attention import attention
from chronoscale.real_exec.collective import Collective
from chronoscale.real_exec.exchange import Exchange, all_gather
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.model import EvolvingBlock, GatBlock, SnapshotModel, State
from chronoscale.real_exec.snapshots.region import Region, Route
from chronoscale.real_exec.task import Task, tasks_of
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.snapshots.cells import stages
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


class CellProgram:
    """Executes one rank's rows. Losses are means over all nodes and over the groups of an iteration; a rank adds its own rows' share."""

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        region: Region,
        model: SnapshotModel,
        hyper: Hyper,
        device: torch.device,
        collective: Collective,
        exchange: Exchange,
        learning_rate: float = 0.01,
    ) -> None:
        self.tasks, self.region, self.model, self.hyper = tasks_of(schedule, rank), region, model.to(device), hyper
        self.device, self.collective, self.exchange = device, collective, exchange
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        self.moved: dict[int, int] = {}  # task -> bytes that a communication row took from or brought to other ranks
        self._order = stages(model.shape)
        self._recomputes = any(task.op is Op.FORWARD for task in self.tasks)
        self._peer = _peers(schedule, rank)
        self._groups = _groups(schedule)
        self._cells: defaultdict[tuple[int, int, int], Cell] = defaultdict(Cell)
        self._held: dict[tuple[int, int], tuple[Full, Tensor]] = {}
        self._loss: dict[int, list[Tensor]] = defaultdict(list)
        seats = {(t.unit, t.step) for t in self.tasks if t.op is Op.H2D}
        predicting = {seat for seat in seats if self._predicts(seat[1])}
        region.prepare({self._snapshot(*seat) for seat in seats}, {self._snapshot(*seat) + hyper.horizon for seat in predicting})
        self._goals = {seat: region.target(self._snapshot(*seat) + hyper.horizon).to(device) for seat in predicting}
        self._run: Mapping[Op, Callable[[Task, Cell], None]] = {
            Op.H2D: self._h2d,
            Op.AGGREGATE: self._stage,
            Op.TRANSFORM: self._stage,
            Op.TEMPORAL: self._stage,
            Op.ALLTOALL: self._all_to_all,
            Op.ALLGATHER: self._all_gather,
            Op.SEND: self._send,
            Op.RECV: self._receive,
            Op.FORWARD: self._forward,
            Op.BACKWARD: self._backward,
            Op.ALLREDUCE: self._all_reduce,
            Op.OPTIMIZE: self._optimize,
        }

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that cells do not have."""
        self._run[task.op](task, self._cells[task.unit, task.step, task.layer])

    def losses(self) -> dict[int, float]:
        """This rank's share of the loss of each iteration since the last call; shares sum to the mean over groups."""
        shares = {iteration: float(torch.stack(parts).sum()) for iteration, parts in self._loss.items()}
        self._loss.clear()
        return shares

    def _snapshot(self, unit: int, step: int) -> int:
        return unit * self.hyper.stride + step

    def _predicts(self, step: int) -> bool:
        return self.model.shape.predicts_each or step == self.hyper.group_size - 1

    def _route(self, task: Task) -> Route:
        route = self.region.route(self._snapshot(task.unit, task.step))
        assert route is not None
        return route

    def _uses(self, *tensors: Tensor | None) -> None:
        """Tell the allocator that this lane reads tensors made in another, so that their memory is not reused too early."""
        if self.device.type == "cuda":
            for tensor in tensors:
                if tensor is not None:
                    tensor.record_stream(torch.cuda.current_stream())

    # forward

    def _h2d(self, task: Task, cell: Cell) -> None:
        copy = self.region.graph(self._snapshot(task.unit, task.step)).to(self.device)
        features = self.region.features
        held = features.clone() if self.device.type == "cpu" else features.to(self.device, non_blocking=True)
        self._held[task.unit, task.step] = copy, held

    def _input(self, task: Task, cell: Cell) -> Tensor:
        """Own rows that the cell reads, [N, D]: features, or a leaf of the layer below."""
        if cell.x is None:
            below = self._held[task.unit, task.step][1] if task.layer == 0 else self._output(task.unit, task.step, task.layer - 1)
            cell.x = below.detach().requires_grad_(task.layer > 0)
        return cell.x

    def _output(self, unit: int, step: int, layer: int) -> Tensor:
        cell = self._cells[unit, step, layer]
        if self.model.shape.evolves_weights:
            assert cell.dense is not None
            return cell.dense
        assert cell.after is not None
        return cell.after[0]

    def _stage(self, task: Task, cell: Cell) -> None:
        with torch.set_grad_enabled(not self._recomputes):
            self._compute(task.op, task, cell)
        if task.op is self._order[-1] and self._recomputes:  # what FORWARD makes again goes
            cell.dense = cell.dense if self.model.shape.evolves_weights else None
            cell.sum = cell.sum if self._constant(task.layer) else None

    def _constant(self, layer: int) -> bool:
        """Whether nothing that is trained lies below the aggregation."""
        return layer == 0 and not self.model.shape.transforms_first

    def _compute(self, op: Op, task: Task, cell: Cell) -> None:
        block = self.model.block(task.layer)
        if op is Op.AGGREGATE:
            self._aggregate(task, cell)
        elif op is Op.TEMPORAL:
            if task.step and cell.before is None:
                last = self._cells[task.unit, task.step - 1, task.layer].after
                assert last is not None
                cell.before = [part.detach().requires_grad_() for part in last]
            self._uses(*(cell.before or []), cell.summary)
            before: State | None = None if cell.before is None else (cell.before[0], cell.before[-1])
            if isinstance(block, EvolvingBlock):
                state = block.evolve(before, cell.summary if cell.summary is not None else cell.picked)
            else:
                z = cell.sum if isinstance(block, GatBlock) else cell.dense
                assert z is not None
                state = block.step(z, before)
            cell.after = list(state if self.model.shape.temporal == "lstm" else state[:1])
        elif isinstance(block, EvolvingBlock):
            assert cell.sum is not None and cell.after is not None
            cell.dense = block.transform(cell.sum, (cell.after[0], cell.after[-1]))
        elif isinstance(block, GatBlock):
            cell.dense = block.transform(self._input(task, cell))
        else:
            assert cell.sum is not None
            cell.dense = block.transform(cell.sum)

    def _aggregate(self, task: Task, cell: Cell) -> None:
        held, features = self._held[task.unit, task.step]
        graph, block = held.graph, self.model.block(task.layer)
        self._uses(graph.indptr, graph.indices, graph.values, held.scale, features, cell.wide)
        if isinstance(block, GatBlock):
            z = cell.wide if cell.wide is not None else cell.dense
            assert z is not None
            left, right = block.scores(z)
            cell.sum = block.finish(attention(graph, z, left, right[: self.region.rows]).output())
            return
        x = cell.wide if cell.wide is not None else self._input(task, cell)
        assert held.scale is not None
        cell.sum = ops.aggregate(graph, x) * held.scale[:, None]
        if isinstance(block, EvolvingBlock) and self.model.shape.summarises:
            cell.picked = block.candidates(x[: self.region.rows])[0]
        if task.layer == 0:  # features have no gradient and no other reader
            cell.x = cell.wide = None
            self._held[task.unit, task.step] = held, features.new_empty(0)

    # communication

    def _all_to_all(self, task: Task, cell: Cell) -> None:
        if cell.halves == 0:
            self._fetch(task, cell)
        elif cell.summary is not None and cell.halves > 1:
            self._return_candidates(task, cell)
        else:
            self._return_halo(task, cell)
            cell.halves = 2

    def _fetch(self, task: Task, cell: Cell) -> None:
        """Remote rows behind own ones, in one leaf."""
        route, rows = self._route(task), self.region.rows
        own = cell.dense if self.model.shape.transforms_first else self._input(task, cell)
        assert own is not None
        self._uses(own)
        with torch.no_grad():
            wide = own.new_empty(rows + sum(route.remote), own.shape[1])
            wide[:rows] = own
            self.exchange.all_to_all(wide[rows:], own[route.send], route.remote, route.rows)
        self.moved[task.task] = wide[rows:].nbytes
        cell.wide = wide.requires_grad_(not self._constant(task.layer))
        if not self.model.shape.transforms_first:
            cell.x = None  # the same rows, now in `wide`

    def _return_halo(self, task: Task, cell: Cell) -> None:
        assert cell.wide is not None and cell.wide.grad is not None
        route, rows, gradient = self._route(task), self.region.rows, cell.wide.grad
        self._uses(gradient)
        back = gradient.new_empty(sum(route.rows), gradient.shape[1])
        self.exchange.all_to_all(back, gradient[rows:], route.rows, route.remote)
        self.moved[task.task] = gradient[rows:].nbytes
        gradient.index_add_(0, route.send, back)

    def _candidate_rows(self) -> list[int]:
        return [min(rows, self.model.shape.hidden) for rows in self.region.counts]

    def _all_gather(self, task: Task, cell: Cell) -> None:
        assert cell.picked is not None
        own = cell.picked.detach()
        self._uses(own)
        cell.summary = all_gather(self.exchange, own, self._candidate_rows()).requires_grad_(task.layer > 0)
        self.moved[task.task] = own.nbytes

    def _return_candidates(self, task: Task, cell: Cell) -> None:
        """Everyone's gradient of own candidates; from there into the rows that they were picked from."""
        assert cell.summary is not None and cell.summary.grad is not None and cell.picked is not None
        counts = self._candidate_rows()
        gradient, own, ranks = cell.summary.grad, len(cell.picked), len(counts)
        self._uses(gradient)
        back = gradient.new_empty(ranks * own, gradient.shape[1])
        self.exchange.all_to_all(back, gradient, [own] * ranks, counts)
        self.moved[task.task] = gradient.nbytes - cell.picked.nbytes
        torch.autograd.backward(cell.picked, back.view(ranks, own, gradient.shape[1]).sum(0))
        cell.summary = cell.picked = None

    def _send(self, task: Task, cell: Cell) -> None:
        """The state; or, after the gradient pass, the gradient of the state that came."""
        parts = cell.after
        if cell.halves:
            assert cell.before is not None
            parts, cell.before = [_grad(part) for part in cell.before], None
        assert parts is not None
        self._uses(*parts)
        with torch.no_grad():
            message = torch.stack([*parts])
        self.exchange.send(message, self._peer[task.task])
        self.moved[task.task] = message.nbytes

    def _receive(self, task: Task, cell: Cell) -> None:
        """The state before a cell that has not run; the gradient of its own state after that."""
        shape, hidden = self.model.shape, self.model.shape.hidden
        each = (hidden, shape.width(task.layer)) if shape.evolves_weights else (self.region.rows, hidden)
        message = torch.empty(2 if shape.temporal == "lstm" else 1, *each, device=self.device)
        self.exchange.receive(message, self._peer[task.task])
        self.moved[task.task] = message.nbytes
        if cell.after is None:
            cell.before = [part.requires_grad_() for part in message.unbind()]
        else:
            cell.after_grad = list(message.unbind())

    # backward

    def _forward(self, task: Task, cell: Cell) -> None:
        for op in self._order:
            if op is not Op.AGGREGATE or not self._constant(task.layer):
                self._compute(op, task, cell)

    def _backward(self, task: Task, cell: Cell) -> None:
        splits = self.model.shape.transforms_first and cell.wide is not None
        if cell.halves:  # attention's remote readers have returned their gradients of the transformation
            assert cell.wide is not None and cell.dense is not None
            self._uses(cell.wide.grad)
            torch.autograd.backward(cell.dense, _grad(cell.wide)[: self.region.rows])
            cell.wide = None
            return self._done(task, cell)
        roots, gradients = self._gradients(task, cell)
        torch.autograd.backward(roots, gradients)
        cell.halves, cell.sum, cell.after, cell.after_grad = 1, None, None, None
        if cell.summary is None or task.layer == 0:
            cell.summary = cell.picked = None
        if not splits:
            self._done(task, cell)

    def _gradients(self, task: Task, cell: Cell) -> tuple[list[Tensor], list[Tensor | None]]:
        """What a cell's gradient pass starts from: its loss, the layer above and the next snapshot, whichever there are."""
        unit, step, layer = task.unit, task.step, task.layer
        roots: list[Tensor] = []
        gradients: list[Tensor | None] = []
        if layer + 1 == self.model.shape.layers and self._predicts(step):
            roots.append(self._share(task, self._output(unit, step, layer)))
            gradients.append(None)
        elif layer + 1 < self.model.shape.layers:
            above = self._cells[unit, step, layer + 1].down
            assert above is not None
            self._uses(above.grad)
            roots.append(self._output(unit, step, layer))
            gradients.append(_grad(above)[: self.region.rows])
        after = self._cells.get((unit, step + 1, layer))
        if cell.after_grad is None and after is not None and after.before is not None:
            cell.after_grad, after.before = [_grad(part) for part in after.before], None
        if cell.after_grad is not None:
            assert cell.after is not None
            self._uses(*cell.after_grad)
            roots += cell.after
            gradients += cell.after_grad
        return roots, gradients

    def _share(self, task: Task, output: Tensor) -> Tensor:
        """This rank's rows of the mean squared error over nodes, predictions and groups."""
        wrong: Tensor = self.model.readout(output).squeeze(-1) - self._goals[task.unit, task.step]
        predictions = self.hyper.group_size if self.model.shape.predicts_each else 1
        loss: Tensor = (wrong * wrong).sum() / (self.region.nodes * predictions * self._groups[task.iteration])
        self._loss[task.iteration].append(loss.detach())
        return loss

    def _done(self, task: Task, cell: Cell) -> None:
        cell.dense = None
        if task.layer + 1 < self.model.shape.layers:
            above = self._cells[task.unit, task.step, task.layer + 1]
            above.x = above.wide = None
        if task.layer == 0:
            cell.x = None
            del self._held[task.unit, task.step]

    def _all_reduce(self, task: Task, cell: Cell) -> None:
        parameters = list(self.model.parameters())
        flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in parameters])
        self.collective.all_reduce(flat)
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter)

    def _optimize(self, task: Task, cell: Cell) -> None:
        self._uses(*(p.grad for p in self.model.parameters()))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._cells.clear()


def _grad(leaf: Tensor) -> Tensor:
    """A leaf's gradient; zeros where nothing that is trained reads it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


def _peers(schedule: Schedule, rank: int) -> dict[int, int]:
    """The other rank of every message of `rank`, by row."""
    rows = np.flatnonzero((schedule.op == Op.SEND) | (schedule.op == Op.RECV))
    ends = rows[np.argsort(schedule.collective[rows], kind="stable")].reshape(-1, 2)
    pairs: Ints = np.concatenate([ends, ends[:, ::-1]])
    mine = pairs[schedule.rank[pairs[:, 0]] == rank]
    return dict(zip(mine[:, 0].tolist(), schedule.rank[mine[:, 1]].tolist(), strict=True))


def _groups(schedule: Schedule) -> dict[int, int]:
    """Groups of every iteration, over all ranks."""
    rows = schedule.tasks(Op.BACKWARD)
    pairs = np.unique(np.stack([schedule.iteration[rows], schedule.unit[rows]]), axis=1)
    iterations, counts = np.unique(pairs[0], return_counts=True)
    return dict(zip(iterations.tolist(), counts.tolist(), strict=True))
