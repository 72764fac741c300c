"""Workflow of experiments on signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from chronoscale.batching.signals.naive import naive_errors
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.signals import data, training
from chronoscale.harness.workflows.signals.probing import SignalProbes, batch_planner
from chronoscale.harness.workflows.workflow import Workflow
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Workload


class SignalWorkflow(Workflow[SignalExperiment]):
    """Workflow of experiments on signals (sensor readings on a static graph): how these are stored, planned, probed and trained.

    Training follows one schedule, for which no costs are needed.
    """

    workload = staticmethod(data.workload)
    store = staticmethod(data.store_signal)
    stored = staticmethod(data.stored_workload)

    def probes(self, experiment: SignalExperiment, run: Run, folder: Path) -> SignalProbes:
        stored = data.store_signal(experiment, run)
        return SignalProbes(stored, data.stored_workload(experiment, stored), planners(experiment).values(), folder)

    def train(self, experiment: SignalExperiment, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        planner = batch_planner(next(iter(planners(experiment, executed=True).values())))
        training.train(experiment, planner, run)

    def naive_scores(self, experiment: SignalExperiment, run: Run) -> Mapping[str, Mapping[str, float]]:
        stored = data.store_signal(experiment, run)
        windows = data.stored_workload(experiment, stored).windows
        return naive_errors(data.map_signal(stored), windows, windows.validation)

    def size(self, work: Workload) -> str:
        return f"{work.signal.steps} steps of {work.signal.sensors} sensors"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"windows": len(work.windows), "host_bytes": schedule.host}

    def notes(self, experiment: SignalExperiment, run: Run) -> list[str]:
        batches = experiment.training.batches
        shortened = (
            [f"{run.folder.name}: an epoch is its first {batches} optimiser steps and as many validation batches."] if batches else []
        )
        return shortened + ([run.read(data.NOTE, data.MissingReadings).note] if (run.folder / data.NOTE).exists() else [])
