"""Workflow of experiments on signals."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.signals import data
from chronoscale.harness.workflows.workflow import Workflow
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Workload


class SignalWorkflow(Workflow[SignalExperiment]):
    """Workflow of experiments on signals (sensor readings on a static graph): how these are stored and counted."""

    workload = staticmethod(data.workload)
    store = staticmethod(data.store_signal)
    stored = staticmethod(data.stored_workload)

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
