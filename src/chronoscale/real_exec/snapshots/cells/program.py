"""CellProgram: executes one rank's rows of snapshot groups that are spread over ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.snapshots.cells.backward import CellBackward
from chronoscale.real_exec.snapshots.cells.cell import Cell
from chronoscale.real_exec.snapshots.cells.exchange import CellExchange
from chronoscale.real_exec.snapshots.cells.forward import CellForward
from chronoscale.real_exec.snapshots.cells.group_grid import GroupGrid
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import Region
from chronoscale.real_exec.snapshots.trainer import Trainer
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.groups import groups_of
from chronoscale.strategies.workload import Hyper


class CellProgram(Trainer):
    """A rank's program for snapshot groups that are spread over ranks, by snapshots or by vertex parts.

    Losses are means over all nodes and the groups of an iteration; a rank adds its own share.
    """

    def __init__(self, schedule: Schedule, region: Region, learner: Learner[SnapshotModel], hyper: Hyper, context: Context) -> None:
        self.tasks = tasks_of(schedule, context.rank)
        self.collective = context.collective
        self.learner = learner
        self._groups = groups_of(schedule)
        self.grid = grid = GroupGrid(region, learner.model, hyper, self._groups, context.device)
        seats = {(t.unit, t.step) for t in self.tasks if t.op is Op.H2D}
        self._goals = {key: grid.snapshot(key) + hyper.horizon for key in seats if grid.predicts(key[1])}
        nodes = {t.unit: int(schedule.nodes[t.task]) for t in self.tasks if t.op is Op.H2D}
        folds = {unit: region.fold(grid.snapshot((unit, 0)), hyper.group_size, rows) for unit, rows in nodes.items()}
        self._read = {(grid.snapshot(key), folds[key[0]]) for key in seats}
        grid.folds = {unit: fold for unit, fold in folds.items() if fold.rows}
        region.prepare((), set(self._goals.values()), self._read)
        for unit, _ in self._goals:
            grid.spread(unit)
        self.epoch, self._drawn = 0, -1
        self.begin()
        forward = CellForward(grid, recomputes=any(task.op is Op.FORWARD for task in self.tasks))
        self.exchange = exchange = CellExchange(grid, schedule, context)
        self._run: Mapping[Op, Callable[[Task, Cell], None]] = {
            Op.H2D: forward.transfer,
            Op.AGGREGATE: forward.stage,
            Op.TRANSFORM: forward.stage,
            Op.TEMPORAL: forward.stage,
            Op.FORWARD: forward.recompute,
            Op.ALLTOALL: exchange.all_to_all,
            Op.ALLGATHER: exchange.all_gather,
            Op.SEND: exchange.send,
            Op.RECV: exchange.receive,
            Op.BACKWARD: CellBackward(grid).run,
            Op.ALLREDUCE: lambda task, cell: learner.all_reduce(),
            Op.OPTIMIZE: self._optimize,
        }

    @property
    def graph_blocks(self) -> str:
        return "groups that are spread over ranks are not captured yet"

    def begin(self) -> None:
        """Copy the values to predict to the device where the epoch has its own, or none are there yet."""
        region = self.grid.region
        if self._drawn < 0 or (region.objective.redraws and self._drawn != self.epoch):
            device = self.grid.device
            self.grid.goals = {key: region.target(goal, self.epoch).to(device) for key, goal in self._goals.items()}
            self._drawn = self.epoch

    def run(self, task: Task) -> None:
        self._run[task.op](task, self.grid.at(task))

    def check(self) -> None:
        self.learner.check()

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether the input features of this rank's nodes are finite, in all snapshots that it reads."""
        return all(bool(self.grid.region.features(number, fold).isfinite().all()) for number, fold in self._read)

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self.grid.losses.finish())

    def _optimize(self, task: Task, cell: Cell) -> None:
        self.learner.step(task.iteration, self._groups[task.iteration])
        self.grid.cells.clear()
