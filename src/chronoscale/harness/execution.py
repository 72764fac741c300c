"""Execution: strategies trained for real on 1, 2, … ranks; and the same schedules replayed, to see how well the simulator knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.estimate import affordable
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.families import family_of
from chronoscale.harness.idle import Idle, warn
from chronoscale.harness.jobs import item, job, load_passes, schedules
from chronoscale.harness.machine import admit, machine_for, seat, this_machine
from chronoscale.harness.planners import planned, planners, preparation
from chronoscale.harness.profiles import fitted
from chronoscale.harness.runs import Run
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.launch import launch
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Workload


def execute(experiment: Experiment, run: Run) -> None:
    """A piece `ranks-<n>` for every rank count: schedules, traces of every repeat, losses.

    All strategies of a rank count run in one job, repeat by repeat in turn.

    Raises UserError before any rank starts for a strategy that can only be simulated, for a schedule that does not fit in memory, and as
    `seat`. Warns of ranks without work.
    """
    executed, family = planners(experiment, executed=True), family_of(experiment)
    seat(experiment, experiment.ranks)
    data = family.store(experiment, run)
    work = family.stored(experiment, data)
    affordable(executed, work, experiment.ranks)
    schedules_of: dict[int, dict[str, Schedule]] = {}
    divided: dict[int, dict[str, tuple[str, Workload]]] = {}
    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            costs = fitted(experiment, run, ranks)
            divided[ranks] = {name: family.divided(experiment, run, data, work, ranks, planner) for name, planner in executed.items()}
            schedules_of[ranks] = {name: planned(planner, divided[ranks][name][1], ranks, costs) for name, planner in executed.items()}
            for schedule in schedules_of[ranks].values():
                admit(schedule, machine_for(experiment, costs, schedule), costs)
            _beside(schedules_of[ranks], this_machine(experiment, costs, ranks))

    def make(ranks: int, part: Path) -> None:
        items = []
        for name, schedule in schedules_of[ranks].items():
            one, planner = item(part, name, schedule, data, experiment.hyper), executed[name]
            parts, work = divided[ranks][name]
            one = replace(one, parts=parts)
            if planner.prepares:
                prepare = part / f"{name}.prepare.parquet"
                preparation(planner, work, ranks, UNUSED).save(prepare)
                one = replace(one, prepare=str(prepare))
            items.append(one)
        launch(job(experiment, f"ranks-{ranks}", items, part), ranks, part)

    for ranks in experiment.ranks:
        run.piece(f"ranks-{ranks}", partial(make, ranks))
    warn(idle(run))


def idle(run: Run) -> Idle:
    """Ranks that train nothing, by strategy and number of ranks."""
    return {(name, ranks): one.idle for ranks, folder in run.numbered("ranks-") for name, one in schedules(folder).items()}


def _beside(schedules: Mapping[str, Schedule], machine: Cluster) -> None:
    """Raises UserError where strategies fit alone, but not beside each other: they are executed in turn, in one job."""
    have = machine.device.memory if machine.device.on_host else machine.host_memory / machine.gpus_per_node
    need = sum(schedule.host for schedule in schedules.values())
    if need > have:
        names = ", ".join(schedules)
        raise UserError(
            f"strategies {names}: a rank keeps {need / 1e9:.1f} GB for all of them, and has {have / 1e9:.1f} GB; run them apart"
        )


def passes(run: Run, ranks: int, name: str) -> list[Pass]:
    """Executed repeats of one strategy."""
    return load_passes(run.folder / f"ranks-{ranks}", name)


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
