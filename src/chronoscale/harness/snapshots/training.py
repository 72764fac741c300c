"""Training on snapshots: in REAL's three stages where they serve the strategy, else by one schedule; resumable after any epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.machine import admit, machine_for, this_device
from chronoscale.harness.planners import planned, planners
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, NAIVE
from chronoscale.harness.snapshots import control_plane, partitions
from chronoscale.harness.snapshots.data import kept, stored
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.harness.snapshots.tuning import tuned
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.snapshots.evaluated_plans import STAGE
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.real_exec.snapshots.published_plans import PLAN, PlanRecord, plan_folder
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import UNUSED, CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy


def train(experiment: SnapshotExperiment, run: Run, rough: Callable[[], CostModel]) -> None:
    """Train `experiment.epochs` epochs on the largest of its rank counts with its first strategy: at its end, if it keeps whole groups on a
    rank and may carry over what it has aggregated (`control_plane`); else from the first epoch on.

    A run that was killed goes on after its last whole epoch. Raises UserError before anything starts for a strategy that can only be
    simulated and for a schedule that does not fit in memory, and MachineError when a rank is lost.
    """
    (planner,) = planners(experiment, executed=True).values()
    data = kept(experiment, run)
    _, sequence = stored(experiment, data)
    if control_plane.serves(planner, experiment):
        control_plane.train(experiment, run, rough)
    else:
        _steadily(experiment, planner, run, data)
    if experiment.hyper.held.test:
        split, aim = experiment.hyper.held.split(len(sequence)), objective_of(experiment.task, sequence)
        naive = aim.naive(split.training, split.test, experiment.training.horizon)
        write_text(run.folder / FOLDER / NAIVE, json.dumps(naive))


def _steadily(experiment: SnapshotExperiment, planner: Strategy, run: Run, data: Path) -> None:
    """By one schedule, which needs no costs but a datasheet's to be seen to fit; of windows as they are `tuned`."""
    (work, sequence), ranks, folder = stored(experiment, data), max(experiment.ranks), run.folder / FOLDER
    parts, work = partitions.divided(experiment, run, sequence, work, ranks, planner)
    costs = DatasheetCosts(presets.cluster(experiment.cluster).device)

    def schedule_of(one: SnapshotExperiment) -> tuple[Schedule, Cluster]:
        schedule = planned(planner, replace(work, hyper=one.hyper), ranks, UNUSED)
        return schedule, machine_for(one, FittedCosts(device_name(this_device(one)), (), {}), schedule)

    def fits(one: SnapshotExperiment) -> bool:
        schedule, machine = schedule_of(one)
        return bool(peaks(schedule, replay(schedule, machine, costs)).max() <= machine.device.memory)

    def train_into(one: SnapshotExperiment, folder: Path) -> None:
        schedule, machine = schedule_of(one)
        admit(schedule, machine, costs)
        where = plan_folder(folder, 0)  # the only plan, where ranks look for others
        where.mkdir(parents=True, exist_ok=True)
        schedule.save(where / "schedule.parquet")
        write_text(where / PLAN, json.dumps(asdict(PlanRecord(STAGE, planner.name))))
        run_epochs(one, Item(planner.name, str(where / "schedule.parquet"), str(data), one.hyper, parts), folder)

    train_into(tuned(experiment, planner, folder, train_into, fits), folder)
