"""Training on a signal: epochs with one strategy, resumable after any of them."""

from __future__ import annotations

from chronoscale.batching.signals.rivals.evaluation import score_signal_rivals
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.jobs import make_training
from chronoscale.harness.execute.machine import admit, unmeasured_machine
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.planning.cost_models import datasheet_costs
from chronoscale.harness.planning.schedules import plan_epoch, plan_preparation
from chronoscale.harness.runs.rival_record import write_rivals
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER
from chronoscale.harness.workflows.signals.data import map_signal, store_signal, stored_workload
from chronoscale.real_exec.job import Item
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.strategy import Strategy


def train(experiment: SignalExperiment, planner: Strategy, run: Run) -> None:
    """Train a forecaster on a signal for `chronoscale train`: `experiment.epochs` epochs on the largest of its rank counts.

    Starts the ranks, waits for them, and writes epochs, checkpoints and the errors of its rivals to the run's folder `train`. A run
    that was killed goes on after its last whole epoch. Raises UserError before anything starts for a schedule that does not fit in memory,
    and MachineError when a rank is lost: the checkpoint of the last whole epoch stays.
    """
    ranks = max(experiment.ranks)
    data, folder = store_signal(experiment, run), run.folder / FOLDER
    work = stored_workload(experiment, data)
    schedule = plan_epoch(planner, work, ranks, UNUSED)
    admit(schedule, unmeasured_machine(experiment, schedule), datasheet_costs(experiment.cluster))
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "schedule.parquet", folder / "prepare.parquet"]
    for file, plan in zip(files, (schedule, plan_preparation(planner, work, ranks, UNUSED)), strict=True):
        plan.save(file)
    item = Item(planner.name, str(files[0]), str(data), experiment.hyper, prepare=str(files[1]))
    run_epochs(make_training(experiment, item, folder), ranks)
    write_rivals(folder, score_signal_rivals(map_signal(data), work.windows))
