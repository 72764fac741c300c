"""Execution: strategies trained for real on 1, 2, … ranks; and the same schedules replayed, to see how well the simulator knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.datasets import store
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.prepare import fitted, job, load_passes, machine_for, schedules, this_machine
from chronoscale.harness.runs import Run
from chronoscale.harness.signals import data as signals
from chronoscale.harness.snapshots.data import kept
from chronoscale.harness.snapshots.partitions import counted, cut
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.launch import launch
from chronoscale.real_exec.snapshots.probe import UNUSED
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.registry import PARTITIONED, executable
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.strategy import Prepares
from chronoscale.strategies.workload import Family, Workload


def execute(experiment: Experiment, run: Run) -> None:
    """A piece `ranks-<n>` for every rank count: schedules, traces of every repeat, losses.

    All strategies of a rank count run in one job, repeat by repeat in turn.

    Raises UserError before any rank starts for a strategy that can only be simulated, and for a schedule that does not fit in memory.
    """
    planners = {name: executable(name) for name in experiment.strategies}
    data = kept(experiment, run)
    work, sequence = _planned_on(experiment, data)
    planned: dict[int, dict[str, Schedule]] = {}
    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            costs = fitted(experiment, run, ranks)
            planned[ranks] = {}
            for name, planner in planners.items():
                own = work
                if name in PARTITIONED and sequence is not None:
                    own = counted(work, sequence, cut(run, sequence, ranks), ranks)
                planned[ranks][name] = planner.plan(own, ranks, costs)
            for schedule in planned[ranks].values():
                admit(schedule, machine_for(experiment, costs, schedule), costs)
            _beside(planned[ranks], this_machine(experiment, costs, ranks))

    def make(ranks: int, part: Path) -> None:
        items = []
        for name, schedule in planned[ranks].items():
            file, prepare = part / f"{name}.schedule.parquet", part / f"{name}.prepare.parquet"
            schedule.save(file)
            item = Item(name, str(file), str(data), experiment.hyper)
            if name in PARTITIONED and sequence is not None:
                item = replace(item, parts=str(cut(run, sequence, ranks)))
            if isinstance(planner := planners[name], Prepares):
                planner.prepare(work, ranks, UNUSED).save(prepare)
                item = replace(item, prepare=str(prepare))
            items.append(item)
        launch(job(experiment, f"ranks-{ranks}", items, part), ranks, part)

    for ranks in experiment.ranks:
        run.piece(f"ranks-{ranks}", partial(make, ranks))


def _beside(planned: Mapping[str, Schedule], machine: Cluster) -> None:
    """Raises UserError where strategies fit alone, but not beside each other: they are executed in turn, in one job."""
    have = machine.device.memory if machine.device.on_host else machine.host_memory / machine.gpus_per_node
    need = sum(schedule.host for schedule in planned.values())
    if need > have:
        names = ", ".join(planned)
        raise UserError(
            f"strategies {names}: a rank keeps {need / 1e9:.1f} GB for all of them, and has {have / 1e9:.1f} GB; run them apart"
        )


def _planned_on(experiment: Experiment, data: Path) -> tuple[Workload, SnapshotSequence | None]:
    if experiment.family is Family.ST:
        return signals.planned(experiment, signals.statistics(signals.mapped(data))), None
    sequence, model = store.load(data), experiment.model
    assert isinstance(sequence, SnapshotSequence)
    shape = model_shape(model.name, model.inputs, model.hidden, model.layers)
    return Workload(experiment.dataset.label, statistics_of(sequence), shape, experiment.hyper), sequence


def admit(schedule: Schedule, machine: Cluster, costs: CostModel) -> None:
    """Replay before anything runs. Raises UserError naming rank, peak and task when a rank's memory is too small for the schedule, and
    when `costs` do not know one of its rows."""
    try:
        check(schedule, replay(schedule, machine, costs), machine)
    except UserError as error:
        raise UserError(f"strategy '{schedule.name}' on {schedule.ranks} rank{'s' * (schedule.ranks > 1)}: {error}") from None


def passes(run: Run, ranks: int, name: str) -> list[Pass]:
    """Executed repeats of one strategy."""
    return load_passes(run.folder / f"ranks-{ranks}", name, run.experiment.repeats)


def rehearse(experiment: Experiment, run: Run) -> None:
    """A piece `replay-<n>` for every rank count: the executed schedules replayed on a model of this machine with fitted costs.

    Raises UserError when a schedule leaves the range that the costs were fitted on, or the machine's memory.
    """

    def make(ranks: int, part: Path) -> None:
        costs = fitted(experiment, run, ranks)
        for name, schedule in schedules(run.folder / f"ranks-{ranks}").items():
            cluster = machine_for(experiment, costs, schedule)
            trace = replay(schedule, cluster, costs)
            check(schedule, trace, cluster)
            trace.save(part / f"{name}.parquet")

    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            raise UserError(f"{run.folder}: nothing was executed on {ranks} ranks")
        run.piece(f"replay-{ranks}", partial(make, ranks))
