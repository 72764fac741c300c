"""Execution: strategies trained for real on 1, 2, … ranks; and the same schedules replayed, to see how well the simulator knows them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chronoscale.datasets import store
from chronoscale.datasets.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.partitions import counted, cut
from chronoscale.harness.prepare import fitted, job, load_passes, schedules, this_machine
from chronoscale.harness.runs import Run
from chronoscale.harness.source import snapshots
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.launch import launch
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.strategies.models import model_shape
from chronoscale.strategies.registry import PARTITIONED, strategy
from chronoscale.strategies.workload import Workload


def execute(experiment: Experiment, run: Run) -> None:
    """A piece `ranks-<n>` for every rank count: schedules, traces of every repeat, losses.

    All strategies of a rank count run in one job, repeat by repeat in turn.
    """
    sequence, model = snapshots(experiment), experiment.model
    shape = model_shape(model.name, model.inputs, model.hidden, model.layers)
    work = Workload(experiment.dataset.label, statistics_of(sequence), shape, experiment.hyper)
    data = run.piece("data", lambda part: store.save(part / "snapshots", sequence)) / "snapshots"

    def make(ranks: int, part: Path) -> None:
        items, costs = [], fitted(experiment, run, ranks)
        for name in experiment.strategies:
            own, parts = work, ""
            if name in PARTITIONED:
                assignment = cut(run, sequence, ranks)
                own, parts = counted(work, sequence, assignment, ranks), str(assignment)
            schedule = strategy(name).plan(own, ranks, costs)
            file = part / f"{name}.schedule.parquet"
            schedule.save(file)
            items.append(Item(name, str(file), str(data), experiment.hyper, parts))
        launch(job(experiment, f"ranks-{ranks}", items, part), ranks, part)

    for ranks in experiment.ranks:
        run.piece(f"ranks-{ranks}", partial(make, ranks))


def passes(run: Run, ranks: int, name: str) -> list[Pass]:
    """Executed repeats of one strategy."""
    return load_passes(run.folder / f"ranks-{ranks}", name, run.experiment.repeats)


def rehearse(experiment: Experiment, run: Run) -> None:
    """A piece `replay-<n>` for every rank count: the executed schedules replayed on a model of this machine with fitted costs.

    Raises UserError when a schedule leaves the range that the costs were fitted on, or the machine's memory.
    """

    def make(ranks: int, part: Path) -> None:
        costs = fitted(experiment, run, ranks)
        cluster = this_machine(experiment, costs, ranks)
        for name, schedule in schedules(run.folder / f"ranks-{ranks}").items():
            trace = replay(schedule, cluster, costs)
            check(schedule, trace, cluster)
            trace.save(part / f"{name}.parquet")

    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            raise UserError(f"{run.folder}: nothing was executed on {ranks} ranks")
        run.piece(f"replay-{ranks}", partial(make, ranks))
