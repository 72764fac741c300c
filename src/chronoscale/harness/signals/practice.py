"""SignalPractice: what is done with experiments on signals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chronoscale.harness.practice import Practice
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.signals import data, training
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.harness.signals.probing import SignalProbes, feeds
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class SignalPractice(Practice[SignalExperiment]):
    """As `Practice` says."""

    workload, train = staticmethod(data.workload), staticmethod(training.train)
    store, stored = staticmethod(data.stored), staticmethod(data.loaded)

    def probed(self, planner: Strategy) -> str:
        return str(feeds(planner).feeding)

    def probes(self, experiment: SignalExperiment, run: Run, folder: Path) -> SignalProbes:
        return SignalProbes(experiment, run, folder)

    def size(self, work: Workload) -> str:
        return f"{work.signal.steps} steps of {work.signal.sensors} sensors"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"windows": len(work.windows), "host_bytes": schedule.host}

    def notes(self, experiment: SignalExperiment, run: Run) -> list[str]:
        batches = experiment.training.batches
        said = [f"{run.folder.name}: an epoch is its first {batches} optimiser steps and as many validation batches."] if batches else []
        return said + ([run.read(data.NOTE, data.Said).note] if (run.folder / data.NOTE).exists() else [])
