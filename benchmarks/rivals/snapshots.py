"""This package's own models of snapshots on one CPU rank, trained as `chronoscale bench` times them."""

from __future__ import annotations

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator.presets import local_cpu
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import RoundRobinStrategy
from chronoscale.strategies.workload import Hyper, ModelShape, Workload
from rivals.windows import Losses

ROWS = RoundRobinStrategy("rows", "Type I and shared rows", "REAL §4", Reuse(snapshots=True, groups=True, rows=True))
COSTS = DatasheetCosts(local_cpu(1, 1e11, Link(1e9, 1e-4)).device)  # by which snapshots are sent in full or as changes


class Ours:
    """Strategy psg, or one group a step that reuses what it can (`rows`), its schedule executed by the interpreter."""

    def __init__(
        self,
        sequence: SnapshotSequence,
        shape: ModelShape,
        hyper: Hyper,
        rate: float,
        seed: int,
        context: Context | None = None,
        planner: RoundRobinStrategy = PSG,
    ) -> None:
        """`context`: of a rank that was started as a job's are (`open_context`); else one is made, and nothing of this process is set."""
        context = context or Context(settings=Settings(learning_rate=rate, seed=seed))
        self.material = SnapshotMaterial(sequence, shape.inputs, seed=seed)
        self.model = SnapshotModel(shape, seed)
        self.schedule = planner.plan(Workload(sequence.name, statistics_of(sequence), shape, hyper), 1, COSTS)
        self._program = SnapshotProgram(self.schedule, self.material, Learner(self.model, context), hyper, context)
        self._lanes = context.lanes(self.schedule)

    def epoch(self) -> Losses:
        """Train as `Trainer.epoch`."""
        losses: Losses = execute(self.schedule, self._program, self._lanes, "cpu").losses.tolist()
        return losses
