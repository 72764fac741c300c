"""Workflow of experiments on event streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.streams import data
from chronoscale.harness.workflows.streams.batch_planners import warn_of_unbound_threads
from chronoscale.harness.workflows.streams.tgb_results import tgb_results
from chronoscale.harness.workflows.workflow import Workflow
from chronoscale.reports.attachment import Attachment
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Workload


class StreamWorkflow(Workflow[StreamExperiment]):
    """Workflow of experiments on event streams: how these are stored and counted."""

    workload = staticmethod(data.workload)
    stored = staticmethod(data.stored_workload)

    def store(self, experiment: StreamExperiment, run: Run) -> Path:
        warn_of_unbound_threads(planners(experiment).values(), experiment.topology, experiment.threads, experiment.ranks)
        return data.store_events(experiment, run)

    def size(self, work: Workload) -> str:
        return f"{work.events.training:,} events to train on, {work.events.num_nodes:,} nodes"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"events": work.events.training, "host_bytes": schedule.host}

    def notes(self, experiment: StreamExperiment, run: Run) -> list[str]:
        if not (batches := experiment.training.batches):
            return []
        first = f"{run.folder.name}: an epoch is its first {batches} optimiser steps and as many validation batches"
        return [f"{first}; memory misses what lies between, also where it is tested."]

    def attachment(self, runs: Sequence[tuple[StreamExperiment, Run]]) -> Attachment | None:
        return tgb_results(runs)
