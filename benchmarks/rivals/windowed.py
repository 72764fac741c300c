"""This package's own models of snapshots, trained on sliding windows as `chronoscale bench` times them: strategy flaredtdg and its kin."""

from __future__ import annotations

from chronoscale.batching.snapshots.chunks import Counted, chunked
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import Pass, execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import Material
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, WindowStrategy
from chronoscale.strategies.workload import Hyper, ModelShape, Workload
from rivals.windows import Losses


class WindowTrainer:
    """A model on one CPU rank. An epoch's windows come in an order of its own: the sequence is split at random."""

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
        """context: as `Psg`."""
        context = context or Context(settings=Settings(learning_rate=rate, seed=seed))
        self.material = Material(sequence, shape.inputs, seed=seed)
        self.learner = Learner(SnapshotModel(shape, seed), context)
        chunks = chunked(sequence, hyper.recency.chunks)
        workload = Workload(sequence.name, statistics_of(sequence), shape, hyper, chunking=Counted(sequence, chunks))
        self.schedule = strategy.plan(workload, 1, UNUSED)
        self._program = WindowProgram(self.schedule, self.material, chunks, self.learner, hyper, context)
        self._lanes = context.lanes(self.schedule)
        self._hyper, self._snapshots = hyper, len(sequence)
        self.last: Pass | None = None

    @property
    def model(self) -> SnapshotModel:
        return self.learner.model

    @property
    def order(self) -> list[int]:
        """Which windows the next epoch trains on, by their oldest snapshot."""
        keeping = WindowRetention.of(self.schedule)
        parts = keeping.epoch(self._hyper.seed, self._program.epoch).steps(self._snapshots - self._hyper.horizon, keeping.decay.window)
        return [newest - keeping.decay.window + 1 for part in parts for newest in part]

    def epoch(self) -> Losses:
        """As `Trainer.epoch`."""
        self.last = execute(self.schedule, self._program, self._lanes, "cpu")
        losses: Losses = self.last.losses.tolist()
        return losses
