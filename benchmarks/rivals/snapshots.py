"""This package's own models of snapshots on one CPU rank, trained as `chronoscale bench` times them."""

from __future__ import annotations

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import Pass, execute
from chronoscale.real_exec.execution.lanes import Lanes
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, WindowStrategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper, ModelShape, Workload
from rivals.windows import Losses


class ScheduleTrainer:
    """A model trained by the interpreter. The last epoch's pass stays in `last`."""

    schedule: Schedule
    _program: Program
    _lanes: Lanes

    def __init__(
        self, sequence: SnapshotSequence, shape: ModelShape, hyper: Hyper, rate: float, seed: int, context: Context | None = None
    ) -> None:
        """`context`: of a rank that was started as a job's are (`joined`); else one is made, and nothing of this process is set."""
        self._context = context or Context(settings=Settings(learning_rate=rate, seed=seed))
        self._hyper, self._sequence = hyper, sequence
        self.material = SnapshotMaterial(sequence, shape.inputs, seed=seed)
        self.learner = Learner(SnapshotModel(shape, seed), self._context)
        self.last: Pass | None = None

    @property
    def model(self) -> SnapshotModel:
        return self.learner.model

    def epoch(self) -> Losses:
        """Train as `Trainer.epoch`."""
        self.last = execute(self.schedule, self._program, self._lanes, "cpu")
        losses: Losses = self.last.losses.tolist()
        return losses


class Psg(ScheduleTrainer):
    """Strategy psg, its schedule interpreted."""

    def __init__(
        self, sequence: SnapshotSequence, shape: ModelShape, hyper: Hyper, rate: float, seed: int, context: Context | None = None
    ) -> None:
        super().__init__(sequence, shape, hyper, rate, seed, context)
        self.schedule = PSG.plan(Workload(sequence.name, statistics_of(sequence), shape, hyper), 1, UNUSED)
        self._program = SnapshotProgram(self.schedule, self.material, self.learner, hyper, self._context)
        self._lanes = self._context.lanes(self.schedule)


class WindowTrainer(ScheduleTrainer):
    """Strategy flaredtdg and its kin. An epoch's windows come in an order of its own: the sequence is split at random."""

    _program: WindowProgram

    def __init__(
        self,
        sequence: SnapshotSequence,
        shape: ModelShape,
        hyper: Hyper,
        rate: float,
        seed: int,
        context: Context | None = None,
        strategy: WindowStrategy = FLAREDTDG,
    ) -> None:
        super().__init__(sequence, shape, hyper, rate, seed, context)
        chunks = cut_into_chunks(sequence, hyper.recency.chunks)
        workload = Workload(sequence.name, statistics_of(sequence), shape, hyper, chunking=ExactChunking(sequence, chunks))
        self.schedule = strategy.plan(workload, 1, UNUSED)
        self._program = WindowProgram(self.schedule, self.material, chunks, self.learner, hyper, self._context)
        self._lanes = self._context.lanes(self.schedule)

    @property
    def order(self) -> list[int]:
        """Which windows the next epoch trains on, by their oldest snapshot."""
        keeping = WindowRetention.of(self.schedule)
        steps = len(self._sequence) - self._hyper.horizon
        parts = keeping.epoch(self._hyper.seed, self._program.epoch).steps(steps, keeping.decay.window)
        return [newest - keeping.decay.window + 1 for part in parts for newest in part]
