"""Training on a stream: epochs with one strategy, resumable after any of them."""

from __future__ import annotations

import json
from collections.abc import Callable

from chronoscale.batching.streams.naive import naive_scores
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.machine import admit, machine_for, this_device
from chronoscale.harness.planners import planned, planners
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, NAIVE
from chronoscale.harness.streams import unbound
from chronoscale.harness.streams.data import loaded, stored
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.simulator import presets
from chronoscale.strategies.costs import UNUSED, CostModel, DatasheetCosts, FittedCosts


def train(experiment: StreamExperiment, run: Run, rough: Callable[[], CostModel]) -> None:
    """Train at most `experiment.epochs` epochs on the largest of its rank counts with its first strategy.

    A run that was killed goes on after its last whole epoch. Raises UserError before anything starts for a schedule that does not fit in
    memory, which needs no costs but a datasheet's (`rough` is not asked), and MachineError when a rank is lost: what the last whole epoch
    left is kept.
    """
    unbound.warn(experiment)
    ranks = max(experiment.ranks)
    planner = next(iter(planners(experiment, executed=True).values()))
    data, folder = stored(experiment, run), run.folder / FOLDER
    schedule = planned(planner, loaded(experiment, data), ranks, UNUSED)
    costs = DatasheetCosts(presets.cluster(experiment.cluster).device)
    admit(schedule, machine_for(experiment, FittedCosts(device_name(this_device(experiment)), (), {}), schedule), costs)
    folder.mkdir(parents=True, exist_ok=True)
    schedule.save(folder / "schedule.parquet")
    item = Item(planner.name, str(folder / "schedule.parquet"), str(data), experiment.hyper)
    run_epochs(experiment, item, folder)
    write_text(folder / NAIVE, json.dumps(naive_scores(PreparedStream.load(data), experiment.training.batch_size * ranks)))
