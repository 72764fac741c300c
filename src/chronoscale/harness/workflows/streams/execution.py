"""Execution of experiments on event streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.rivals import score_stream_rivals
from chronoscale.errors import UserError
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.execution import Execution, PredictedPeriod
from chronoscale.harness.workflows.streams import data, training
from chronoscale.harness.workflows.streams.batch_planners import warn_of_unbound_threads
from chronoscale.harness.workflows.streams.prediction import predictions
from chronoscale.harness.workflows.streams.probing import StreamProbes
from chronoscale.real_exec.job import Job
from chronoscale.strategies.costs import CostModel


class StreamExecution(Execution[StreamExperiment]):
    """Execution of experiments on event streams: how these are probed and trained.

    Training follows one schedule, for which no costs are needed.
    """

    def probes(self, experiment: StreamExperiment, run: Run, folder: Path) -> StreamProbes:
        stored = data.store_events(experiment, run)
        return StreamProbes(stored, data.stored_workload(experiment, stored), planners(experiment).values(), folder)

    def train(self, experiment: StreamExperiment, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        warn_of_unbound_threads(planners(experiment).values(), experiment.topology, experiment.threads, experiment.ranks)
        training.train(experiment, next(iter(planners(experiment, executed=True).values())), run)

    def predictions(self, job: Job, period: PredictedPeriod | None) -> Iterator[pd.DataFrame]:
        if period not in (None, "test"):
            raise UserError(f"--period {period}: of a stream's events those of the test are predicted; there is no next one to ask about")
        return predictions(job)

    def rivals(self, experiment: StreamExperiment, run: Run) -> Sequence[RivalScores]:
        stored = PreparedStream.load(data.store_events(experiment, run))
        training = experiment.training
        return score_stream_rivals(stored, training.batch_size * max(experiment.ranks), "validation", training.batches)
