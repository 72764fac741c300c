"""Snapshots: sequences of graphs (DTDG), trained in groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.harness.fact import Fact, Facts, spread
from chronoscale.harness.family import Probes, Trained
from chronoscale.harness.jobs import schedules
from chronoscale.harness.runs import Run
from chronoscale.harness.snapshots import data, partitions, probing, training
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.real_exec.snapshots.board import groups_of
from chronoscale.strategies.real.ilp import REAL_L
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


class Snapshots(Trained[SnapshotExperiment]):
    """As `Trained` says; training is REAL's, in three stages, for strategies that those serve."""

    name, container = "snapshots", SnapshotSequence
    keys, models, preferred = SnapshotExperiment, MODELS.keys(), REAL_L.name
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

    def describe(self, found: SnapshotSequence, horizon: int) -> Facts:
        stats = statistics_of(found)
        spans = {"edges a snapshot": stats.edges, "active nodes": stats.nodes}
        compared = {"changed edges": stats.changed_edges, "effective edges": stats.effective_edges, "touched rows": stats.touched_rows}
        spans |= {key: column[1:] for key, column in compared.items()}
        loops = int(np.count_nonzero(found.src == found.dst))
        counted = [("nodes", found.num_nodes), ("snapshots", len(found)), ("edges", int(stats.edges.sum())), ("self-loops", loops)]
        if found.classes is not None:
            counted += [("classes", found.num_classes), ("labelled nodes", int(np.count_nonzero(found.classes >= 0)))]
        return [Fact(*pair) for pair in counted] + [spread(key, column) for key, column in spans.items() if len(column)]
