"""Workflow of experiments on snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.runs.passes import load_schedules
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import data, partitions
from chronoscale.harness.workflows.workflow import Workflow
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.groups import groups_of
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class SnapshotWorkflow(Workflow[SnapshotExperiment]):
    """Workflow of experiments on snapshots: how these are stored, counted and cut."""

    workload = staticmethod(data.workload)
    store = staticmethod(data.store_snapshots)

    def stored(self, experiment: SnapshotExperiment, folder: Path) -> Workload:
        return data.stored_workload(experiment, folder)[0]

    def partition(
        self, experiment: SnapshotExperiment, run: Run, folder: Path, work: Workload, ranks: int, planner: Strategy
    ) -> tuple[str, Workload]:
        _, sequence = data.stored_workload(experiment, folder)
        return partitions.partition_over_ranks(experiment, run, sequence, work, ranks, planner)

    def partition_for_simulation(
        self, experiment: SnapshotExperiment, work: Workload, counts: Collection[int], run: Run | None
    ) -> Mapping[int, Workload]:
        return partitions.partition_for_simulation(experiment, work, counts, run)

    def size(self, work: Workload) -> str:
        return f"{len(work.snapshots)} snapshots"

    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        return {"groups": work.groups}

    def rate(self, experiment: SnapshotExperiment, schedule: Schedule) -> float:
        groups = max(groups_of(schedule).values(), default=1) if experiment.scales_rate else 1
        return experiment.training.learning_rate * groups

    def notes(self, experiment: SnapshotExperiment, run: Run) -> list[str]:
        if not experiment.scales_rate:
            return []
        plans = [plan for folder in run.pieces("ranks-") for plan in load_schedules(folder).values()]
        rates = {f"{plan.name} on {plan.ranks} rank{'s' * (plan.ranks > 1)}": self.rate(experiment, plan) for plan in plans}
        if set(rates.values()) <= {experiment.training.learning_rate}:
            return []
        highest = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
        base = f"{experiment.training.learning_rate:g}"
        return [
            f"{run.folder.name}: the learning rate of a step is {base} times its groups on all ranks (REAL §7.4), at most: {highest}; "
            f"training.scale_learning_rate: false keeps {base} for all."
        ]
