"""WindowProgram: executes one rank's rows of sliding windows; every pass is an epoch with draws of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronoscale.batching.snapshots.chunks import Chunks
from chronoscale.batching.snapshots.survival import level_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.snapshots.cells.backward import CellBackward
from chronoscale.real_exec.snapshots.cells.cell import Cell
from chronoscale.real_exec.snapshots.cells.exchange import CellExchange
from chronoscale.real_exec.snapshots.cells.forward import CellForward
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.trainer import SamplingTrainer
from chronoscale.real_exec.snapshots.windows.grid import WindowGrid, WindowLayout, first_of
from chronoscale.real_exec.snapshots.windows.host_blocks import HostBlocks
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.workload import Hyper


class WindowProgram(SamplingTrainer):
    """A rank's program for FlareDTDG's sliding windows of snapshots.

    Losses are means over the rows that a window predicts, on whichever ranks they are.

    What a pass draws follows from its number, `epoch`, and the seed, on all ranks alike.
    """

    def __init__(
        self,
        schedule: Schedule,
        material: SnapshotMaterial,
        chunks: Chunks,
        learner: Learner[SnapshotModel],
        hyper: Hyper,
        context: Context,
    ) -> None:
        super().__init__(schedule, material, learner, hyper, context)
        self._chunks, self._ranks = chunks, schedule.ranks
        self._keeping = keeping = WindowRetention.of(schedule)
        level = level_of(keeping.decay, chunks.count)[keeping.decay.kept_chunks(chunks.count) > 0][::-1]
        shrinks = any(task.op is Op.REMAP and task.lane is Lane.HOST for task in self.tasks)
        windows = WindowLayout(tuple(level.tolist()), hyper.horizon, shrinks, keeping.each, keeping.inherits)
        self.grid = grid = WindowGrid(
            windows, HostBlocks(material, context.rank, context.device), material, learner.model, context.rank, context.device
        )
        forward, self.exchange = CellForward(grid, recomputes=False), CellExchange(grid, schedule, context)
        self._run: Mapping[Op, Callable[[Task, Cell], None]] = {
            Op.REMAP: self._remap,
            Op.H2D: forward.transfer,
            Op.AGGREGATE: forward.stage,
            Op.TRANSFORM: forward.stage,
            Op.TEMPORAL: forward.stage,
            Op.ALLTOALL: self.exchange.all_to_all,
            Op.ALLGATHER: self.exchange.all_gather,
            Op.BACKWARD: CellBackward(grid).run,
            Op.ALLREDUCE: lambda task, cell: learner.all_reduce(),
            Op.OPTIMIZE: self._optimize,
        }

    def begin(self) -> None:
        """Begin an epoch on this rank: draw the order of vertex chunks, and where the sequence is split into segments."""
        drawn, keeping = self._keeping.epoch(self.hyper.seed, self.epoch), self._keeping
        layout = self._chunks.layout(drawn, keeping.decay, self._ranks, self.grid.windows.shrinks)
        self.grid.begin(self.epoch, layout, *first_of(keeping.segments(self.hyper.seed, self.epoch, self.there)))
        self.learner.clear()

    def run(self, task: Task) -> None:
        self._run[task.op](task, self.grid.at(task))

    def finish(self) -> EpochResult:
        self.epoch += 1
        return EpochResult(self.grid.losses.finish())

    def _remap(self, task: Task, cell: Cell) -> None:
        if task.lane is Lane.HOST:
            self.grid.number(task)
        else:
            self.grid.remap(task)

    def _optimize(self, task: Task, cell: Cell) -> None:
        self.learner.step(task.iteration)
        self.grid.end_window(task.unit)
