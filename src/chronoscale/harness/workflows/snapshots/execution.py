"""Execution of experiments on snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.errors import UserError
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER
from chronoscale.harness.workflows.execution import Execution, PredictedPeriod, Probes
from chronoscale.harness.workflows.snapshots import control_plane, data, partitions, probing, training
from chronoscale.harness.workflows.snapshots.prediction import predictions
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.strategies.costs import UNUSED, CostModel


class SnapshotExecution(Execution[SnapshotExperiment]):
    """Execution of experiments on snapshots: how these are probed and trained.

    Training follows REAL's three stages for strategies that those can train, else one schedule.
    """

    def probes(self, experiment: SnapshotExperiment, run: Run, folder: Path) -> Probes:
        return probing.SnapshotProbes(experiment, folder)

    def train(self, experiment: SnapshotExperiment, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        """Train with the experiment's strategy: in REAL's three stages, if it keeps whole groups on a rank (`control_plane`); else by one
        schedule from the first epoch on, as virtual ranks do, whose times no stage could follow.
        """
        (planner,) = planners(experiment, executed=True).values()
        folder = data.store_snapshots(experiment, run)
        work, sequence = data.stored_workload(experiment, folder)
        staged = control_plane.serves(planner)
        if staged and not experiment.virtual:
            control_plane.train(experiment, planner, work, folder, run.folder / FOLDER, rough_costs)
        else:
            ranks = max(experiment.ranks)
            partition, work = partitions.partition_over_ranks(experiment, run, sequence, work, ranks, planner)
            training.train(experiment, planner, work, folder, partition, run.folder / FOLDER, rough_costs() if staged else UNUSED)
        training.write_rival_scores(experiment, sequence, run.folder / FOLDER)

    def predictions(self, job: Job, period: PredictedPeriod | None) -> Iterator[pd.DataFrame]:
        if period not in (None, "test"):
            raise UserError(f"--period {period}: of snapshots those of the test (training.test) are predicted")
        return predictions(job)

    def rivals(self, experiment: SnapshotExperiment, run: Run) -> Sequence[RivalScores]:
        _, sequence = data.stored_workload(experiment, data.store_snapshots(experiment, run))
        split = experiment.hyper.held.split(len(sequence))
        objective = objective_of(experiment.task, sequence, experiment.hyper)
        return objective.rivals(split, split.validation, experiment.training.horizon)
