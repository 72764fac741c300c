"""Execution of experiments on signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.signals.rivals.evaluation import score_signal_rivals
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.execution import Execution, PredictedPeriod
from chronoscale.harness.workflows.signals import data, training
from chronoscale.harness.workflows.signals.prediction import predictions
from chronoscale.harness.workflows.signals.probing import SignalProbes, batch_planner
from chronoscale.real_exec.job import Job
from chronoscale.strategies.costs import CostModel


class SignalExecution(Execution[SignalExperiment]):
    """Execution of experiments on signals (sensor readings on a static graph): how these are probed and trained.

    Training follows one schedule, for which no costs are needed.
    """

    def probes(self, experiment: SignalExperiment, run: Run, folder: Path) -> SignalProbes:
        stored = data.store_signal(experiment, run)
        return SignalProbes(stored, data.stored_workload(experiment, stored), planners(experiment).values(), folder)

    def train(self, experiment: SignalExperiment, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        planner = batch_planner(next(iter(planners(experiment, executed=True).values())))
        training.train(experiment, planner, run)

    def predictions(self, job: Job, period: PredictedPeriod | None) -> Iterator[pd.DataFrame]:
        return predictions(job, period or "next")

    def rivals(self, experiment: SignalExperiment, run: Run) -> Sequence[RivalScores]:
        stored = data.store_signal(experiment, run)
        windows = data.stored_workload(experiment, stored).windows
        training = experiment.training
        validated = windows.validation[: training.batches * training.batch_size * max(experiment.ranks) or None]  # what models validate on
        return score_signal_rivals(data.map_signal(stored), windows, validated)
