"""CellExchange: what cells exchange between ranks: remote rows, candidates of a summary, states; and gradients of all three."""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.real_exec.communication.exchange import all_gather
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import record_use
from chronoscale.real_exec.snapshots.cells.cell import Cell, CellGrid, gradient
from chronoscale.strategies.schedule import Ints, Op, Schedule


class CellExchange:
    """Communication rows of snapshot groups or windows that are spread over ranks, on one rank.

    A row means one thing before a cell's gradient pass, and the reverse after it.
    """

    def __init__(self, grid: CellGrid, schedule: Schedule, context: Context) -> None:
        self._grid, self._ranks, self._rank = grid, context.exchange, context.rank
        self._peer = _peers(schedule, context.rank)
        self.moved: dict[int, int] = {}  # task -> bytes that a row received from or sent to other ranks

    def all_to_all(self, task: Task, cell: Cell) -> None:
        """Fetch the rows that a cell reads of other ranks; or, after its gradient pass, return their gradients, or those of candidates of a
        summary.
        """
        if cell.halves == 0:
            self._fetch(task, cell)
        elif cell.summary is not None and cell.halves > 1:
            self._return_candidates(task, cell)
        else:
            self._return_halo(task, cell)
            cell.halves = 2

    def all_gather(self, task: Task, cell: Cell) -> None:
        """Gather from all ranks the candidates of EvolveGCN-H's summary (each rank's highest-scored nodes of a snapshot); above the last
        layer, what is read out of their nodes, for a task of pairs.
        """
        if task.layer == self._grid.shape.layers:
            return self._gather_readouts(task)
        assert cell.picked is not None
        own = cell.picked.detach()
        record_use(own)
        cell.summary = all_gather(self._ranks, own, self._candidate_rows(task)).requires_grad_(task.layer > 0)
        self.moved[task.task] = own.nbytes

    def _gather_readouts(self, task: Task) -> None:
        grid, key = self._grid, (task.unit, task.step)
        output = grid.output(*key, grid.shape.layers - 1)
        record_use(output)
        with torch.no_grad():
            own = grid.model.readout(output)
        counts = grid.counts(key)
        every, begin = all_gather(self._ranks, own, counts), sum(counts[: self._rank])
        grid.beside[key] = every[:begin], every[begin + len(own) :]
        self.moved[task.task] = own.nbytes

    def send(self, task: Task, cell: Cell) -> None:
        """Send a cell's recurrent state to the rank with the next snapshot; or, after the gradient pass, return the gradient of the state
        that came from the one before.
        """
        parts = cell.after
        if cell.halves:
            assert cell.before is not None
            parts, cell.before = [gradient(part) for part in cell.before], None
        assert parts is not None
        record_use(*parts)
        with torch.no_grad():
            message = torch.stack([*parts])
        self._ranks.send(message, self._peer[task.task])
        self.moved[task.task] = message.nbytes

    def receive(self, task: Task, cell: Cell) -> None:
        """Receive the recurrent state that a cell goes on from; or, once it has run, the gradient of its own state."""
        shape, rows = self._grid.shape, self._grid.rows((task.unit, task.step))
        each = (shape.hidden, shape.width(task.layer)) if shape.evolves_weights else (rows, shape.depth * shape.hidden)
        message = torch.empty(shape.states, *each, device=self._grid.device)
        self._ranks.receive(message, self._peer[task.task])
        self.moved[task.task] = message.nbytes
        if cell.after is None:
            cell.before = [part.requires_grad_() for part in message.unbind()]
        else:
            cell.after_grad = list(message.unbind())

    def _fetch(self, task: Task, cell: Cell) -> None:
        """Fetch remote rows, and put them behind the own ones in one leaf."""
        grid, key = self._grid, (task.unit, task.step)
        route, rows = grid.route(key), grid.rows(key)
        own = cell.dense if grid.shape.transforms_first else grid.input(task, cell)
        assert own is not None
        record_use(own, route.send, route.stands)
        with torch.no_grad():
            wide = own.new_empty(rows + sum(route.remote), own.shape[1])
            wide[:rows] = own
            self._ranks.all_to_all(wide[rows:], own[route.send], route.remote, route.rows)
            if route.stands is not None:
                wide[rows:] = wide[rows:][route.stands]
        self.moved[task.task] = wide[rows:].nbytes
        cell.wide = wide.requires_grad_(not grid.constant(task.layer))
        if not grid.shape.transforms_first:
            cell.x = None  # the same rows, now in `wide`

    def _return_halo(self, task: Task, cell: Cell) -> None:
        assert cell.wide is not None and cell.wide.grad is not None
        grid = self._grid
        key = (task.unit, task.step)
        own = cell.wide.grad
        route, rows = grid.route(key), grid.rows(key)
        record_use(own, route.arrival, route.back.rows, route.back.indptr, route.back.indices)
        back = own.new_empty(sum(route.rows), own.shape[1])
        remote = own[rows:] if route.arrival is None else own[rows:][route.arrival]
        self._ranks.all_to_all(back, remote, route.rows, route.remote)
        self.moved[task.task] = own[rows:].nbytes
        aggregation.increment_(own, route.back, back)

    def _candidate_rows(self, task: Task) -> list[int]:
        return [min(rows, self._grid.shape.hidden) for rows in self._grid.counts((task.unit, task.step))]

    def _return_candidates(self, task: Task, cell: Cell) -> None:
        """Return everyone's gradients of candidates to their ranks, and from there into the rows that they were picked from."""
        assert cell.summary is not None and cell.summary.grad is not None and cell.picked is not None
        counts = self._candidate_rows(task)
        every = cell.summary.grad
        own = len(cell.picked)
        ranks = len(counts)
        record_use(every)
        back = every.new_empty(ranks * own, every.shape[1])
        self._ranks.all_to_all(back, every, [own] * ranks, counts)
        self.moved[task.task] = every.nbytes - cell.picked.nbytes
        torch.autograd.backward(cell.picked, back.view(ranks, own, every.shape[1]).sum(0))
        cell.summary = cell.picked = None


def _peers(schedule: Schedule, rank: int) -> dict[int, int]:
    """Return the other rank of every message of `rank`, by row."""
    rows = np.flatnonzero((schedule.op == Op.SEND) | (schedule.op == Op.RECV))
    ends = rows[np.argsort(schedule.collective[rows], kind="stable")].reshape(-1, 2)
    pairs: Ints = np.concatenate([ends, ends[:, ::-1]])
    mine = pairs[schedule.rank[pairs[:, 0]] == rank]
    return dict(zip(mine[:, 0].tolist(), schedule.rank[mine[:, 1]].tolist(), strict=True))
