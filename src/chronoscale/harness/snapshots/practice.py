"""SnapshotPractice: what is done with experiments on snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chronoscale.harness.execute.jobs import schedules
from chronoscale.harness.practice import Practice, Probes
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.snapshots import data, partitions, probing, training
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.real_exec.snapshots.device_state import groups_of
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class SnapshotPractice(Practice[SnapshotExperiment]):
    """As `Practice` says; training is REAL's, in three stages, for strategies that those serve."""

    workload, store = staticmethod(data.workload), staticmethod(data.kept)
    train, probed = staticmethod(training.train), staticmethod(probing.probed)
    estimated = staticmethod(partitions.simulated)

    def stored(self, experiment: SnapshotExperiment, folder: Path) -> Workload:
        return data.stored(experiment, folder)[0]

    def probes(self, experiment: SnapshotExperiment, run: Run, folder: Path) -> Probes:
        return probing.SnapshotProbes(experiment, folder)

    def divided(
        self, experiment: SnapshotExperiment, run: Run, folder: Path, work: Workload, ranks: int, planner: Strategy
    ) -> tuple[str, Workload]:
        return partitions.divided(experiment, run, data.stored(experiment, folder)[1], work, ranks, planner)

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
        plans = [plan for folder in run.pieces("ranks-") for plan in schedules(folder).values()]
        each = {f"{plan.name} on {plan.ranks} rank{'s' * (plan.ranks > 1)}": self.rate(experiment, plan) for plan in plans}
        if set(each.values()) <= {experiment.training.learning_rate}:
            return []
        said = ", ".join(f"{name} {rate:g}" for name, rate in each.items())
        base = f"{experiment.training.learning_rate:g}"
        return [f"{run.folder.name}: the learning rate of a step is {base} times its groups on all ranks (REAL §7.4), at most: {said}."]
