"""SampledProgram: executes one rank's rows of windows of sampled snapshots; every pass is an epoch with draws of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.backward import CellBackward
from chronoscale.real_exec.snapshots.cells.cell import Cell
from chronoscale.real_exec.snapshots.cells.exchange import CellExchange
from chronoscale.real_exec.snapshots.cells.forward import CellForward
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.sampled.grid import SampledGrid
from chronoscale.real_exec.snapshots.sampled.share import EpochShare
from chronoscale.real_exec.snapshots.trainer import SamplingTrainer
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.baselines.snapshots.dynagraph import sampling_of
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.workload import Hyper


class SampledProgram(SamplingTrainer):
    """A rank's program for windows of snapshots with sampled neighbours.

    Losses are means over the rows that a window predicts, on whichever ranks they are. What a pass draws follows from its number, `epoch`,
    and the seed, on all ranks alike and whatever their number.
    """

    def __init__(
        self, schedule: Schedule, material: SnapshotMaterial, learner: Learner[SnapshotModel], hyper: Hyper, context: Context
    ) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        self._ranks = context.exchange
        share = EpochShare(material, self.there, context.rank, schedule.ranks, context.device)
        self.grid = grid = SampledGrid(share, self.there, material, learner.model, hyper, context.device)
        self._forward, self.exchange = CellForward(grid, recomputes=False), CellExchange(grid, schedule, context)
        self._run: Mapping[Op, Callable[[Task, Cell], None]] = {
            Op.H2D: self._forward.transfer,
            Op.AGGREGATE: self._forward.stage,
            Op.TRANSFORM: self._transform,
            Op.TEMPORAL: self._forward.stage,
            Op.ALLTOALL: self.exchange.all_to_all,
            Op.BACKWARD: CellBackward(grid).run,
            Op.ALLREDUCE: lambda task, cell: learner.all_reduce(),
            Op.OPTIMIZE: self._optimize,
        }

    def begin(self) -> None:
        """Begin an epoch on this rank: draw which nodes are on which rank, and prepare to sample neighbours."""
        self.grid.begin(sampling_of(self.hyper, self.epoch))
        self.learner.clear()

    def run(self, task: Task) -> None:
        if task.op is Op.SAMPLE:
            self.grid.epoch_share.sample(self.grid.snapshot((task.unit, task.step)))
        elif task.op is Op.ALLTOALL and task.layer < 0:
            self.exchange.moved[task.task] = self.grid.epoch_share.deal(self._ranks)
        else:
            self._run[task.op](task, self.grid.at(task))

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self.grid.losses.finish())

    def _transform(self, task: Task, cell: Cell) -> None:
        """Transform with the first layer's aggregates of the snapshot's first window."""
        if task.layer == 0:
            self.grid.cache(task, cell)
        self._forward.stage(task, cell)

    def _optimize(self, task: Task, cell: Cell) -> None:
        self.learner.step(task.iteration)
        self.grid.cells.clear()
