"""StreamPractice: what is done with experiments on streams of events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chronoscale.harness.practice import Practice
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.streams import data, training, unbound
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.harness.streams.probing import StreamProbes, feeds
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class StreamPractice(Practice[StreamExperiment]):
    """As `Practice` says."""

    workload, train = staticmethod(data.workload), staticmethod(training.train)
    stored = staticmethod(data.loaded)

    def store(self, experiment: StreamExperiment, run: Run) -> Path:
        unbound.warn(experiment)
        return data.stored(experiment, run)

    def probed(self, planner: Strategy) -> str:
        return feeds(planner).way

    def probes(self, experiment: StreamExperiment, run: Run, folder: Path) -> StreamProbes:
        return StreamProbes(experiment, run, folder)

    def size(self, work: Workload) -> str:
        return f"{work.events.training:,} events to train on, {work.events.num_nodes:,} nodes"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"events": work.events.training, "host_bytes": schedule.host}

    def notes(self, experiment: StreamExperiment, run: Run) -> list[str]:
        if not (batches := experiment.training.batches):
            return []
        said = f"{run.folder.name}: an epoch is its first {batches} optimiser steps and as many validation batches"
        return [f"{said}; memory misses what lies between, also where it is tested."]
