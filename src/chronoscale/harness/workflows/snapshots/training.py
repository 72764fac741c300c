"""Training on snapshots by one schedule, resumable after any epoch."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.jobs import make_training
from chronoscale.harness.execute.machine import admit, unmeasured_machine
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.rival_record import write_rivals
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.workflows.snapshots.tuning import tuned_experiment
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.snapshots.evaluated_plans import STAGE
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.real_exec.snapshots.published_plans import PLAN, PlanRecord, plan_folder
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def train(
    experiment: SnapshotExperiment, planner: Strategy, work: Workload, data: Path, partition: str, folder: Path, costs: CostModel
) -> None:
    """Train on snapshots by one schedule from the first epoch on, for `chronoscale train`, into `folder`.

    Trains `experiment.epochs` epochs on the largest of its rank counts, after FlareDTDG's search for the windows' settings where
    `training.tune` asks for it. data: folder of the stored snapshots. partition: file of the vertices' partition, '' for none. costs: of
    rows, for planners that ask for any. Raises UserError before anything starts for a schedule that does not fit in memory, and
    MachineError when a rank is lost.
    """
    ranks = max(experiment.ranks)
    datasheet = DatasheetCosts(presets.cluster(experiment.cluster).device)

    def plan(setting: SnapshotExperiment) -> tuple[Schedule, Cluster]:
        schedule = plan_epoch(planner, replace(work, hyper=setting.hyper), ranks, costs)
        return schedule, unmeasured_machine(setting, schedule)

    def fits(setting: SnapshotExperiment) -> bool:
        schedule, machine = plan(setting)
        return bool(peaks(schedule, replay(schedule, machine, datasheet)).max() <= machine.device.memory)

    def train_into(setting: SnapshotExperiment, folder: Path) -> None:
        schedule, machine = plan(setting)
        admit(schedule, machine, datasheet)
        where = plan_folder(folder, 0)  # the only plan, where ranks look for others
        where.mkdir(parents=True, exist_ok=True)
        schedule.save(where / "schedule.parquet")
        write_text(where / PLAN, json.dumps(asdict(PlanRecord(STAGE, planner.name))))
        item = Item(planner.name, str(where / "schedule.parquet"), str(data), setting.hyper, partition)
        run_epochs(make_training(setting, item, folder), ranks)

    def tune_into(setting: SnapshotExperiment, folder: Path) -> None:
        train_into(setting.model_copy(update={"training": setting.training.model_copy(update={"patience": 0})}), folder)

    train_into(tuned_experiment(experiment, planner, folder, tune_into, fits), folder)


def write_rival_scores(experiment: SnapshotExperiment, sequence: SnapshotSequence, folder: Path) -> None:
    """Score predictions without a network on the test snapshots, for the table of `chronoscale train`, which shows them beside the model.

    folder: of the training. Nothing is written where no test is held out.
    """
    held = experiment.hyper.held
    if held.test:
        split = held.split(len(sequence))
        objective = objective_of(experiment.task, sequence, experiment.hyper)
        write_rivals(folder, objective.rivals(split, split.test, experiment.training.horizon))
