"""Training on a signal: epochs with one strategy, resumable after any of them."""

from __future__ import annotations

import json
from collections.abc import Callable

from chronoscale.batching.signals.naive import naive_errors
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.machine import admit, machine_for, this_device
from chronoscale.harness.planners import planned, planners, preparation
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, NAIVE
from chronoscale.harness.signals.data import loaded, mapped, stored
from chronoscale.harness.signals.experiment import SignalExperiment
from chronoscale.harness.signals.probing import feeds
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import UNUSED, CostModel, DatasheetCosts, FittedCosts

ENGINE = Link(1e9, 1e-3)  # a data engine for a replay that is asked for memory alone


def train(experiment: SignalExperiment, run: Run, rough: Callable[[], CostModel]) -> None:
    """Train `experiment.epochs` epochs on the largest of its rank counts with its first strategy.

    A run that was killed goes on after its last whole epoch. Raises UserError before anything starts for a schedule that does not fit in
    memory, which needs no costs but a datasheet's (`rough` is not asked), and MachineError when a rank is lost: what the last whole epoch
    left is kept.
    """
    ranks = max(experiment.ranks)
    planner = feeds(next(iter(planners(experiment, executed=True).values())))
    data, folder = stored(experiment, run), run.folder / FOLDER
    work = loaded(experiment, data)
    schedule = planned(planner, work, ranks, UNUSED)
    costs = DatasheetCosts(presets.cluster(experiment.cluster).device, engine=ENGINE)
    admit(schedule, machine_for(experiment, FittedCosts(device_name(this_device(experiment)), (), {}), schedule), costs)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "schedule.parquet", folder / "prepare.parquet"]
    for file, plan in zip(files, (schedule, preparation(planner, work, ranks, UNUSED)), strict=True):
        plan.save(file)
    item = Item(planner.name, str(files[0]), str(data), experiment.hyper, prepare=str(files[1]))
    run_epochs(experiment, item, folder)
    write_text(folder / NAIVE, json.dumps(naive_errors(mapped(data), work.windows)))
