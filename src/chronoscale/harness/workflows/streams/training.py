"""Training on an event stream: epochs with one strategy, resumable after any of them."""

from __future__ import annotations

import json

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.rivals import score_stream_rivals
from chronoscale.errors import UserError
from chronoscale.harness.execute.epochs import run_epochs
from chronoscale.harness.execute.jobs import make_training
from chronoscale.harness.execute.machine import admit, unmeasured_machine
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.rival_record import write_rivals
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, NOTES
from chronoscale.harness.workflows.streams.boundary_weights import warn_of_boundary_weights
from chronoscale.harness.workflows.streams.clock import clock_notes
from chronoscale.harness.workflows.streams.data import store_events, stored_workload
from chronoscale.real_exec.job import Item
from chronoscale.simulator import presets
from chronoscale.strategies.costs import UNUSED, DatasheetCosts
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy


def train(experiment: StreamExperiment, planner: Strategy, run: Run) -> None:
    """Train on an event stream for `chronoscale train`: at most `experiment.epochs` epochs on the largest of its rank counts.

    Starts the ranks, waits for them, and writes epochs, checkpoints and its rivals' scores to the run's folder `train`. A run that was
    killed goes on after its last whole epoch. Raises UserError before anything starts for a schedule that does not fit in memory, and for
    published negatives of a validation with a strategy that spreads memory; MachineError when a rank is lost: the checkpoint of the last
    whole epoch stays.
    """
    _require_whole_memory(experiment, planner)
    ranks = max(experiment.ranks)
    data, folder = store_events(experiment, run), run.folder / FOLDER
    schedule = plan_epoch(planner, stored_workload(experiment, data), ranks, UNUSED)
    admit(schedule, unmeasured_machine(experiment, schedule), DatasheetCosts(presets.cluster(experiment.cluster).device))
    folder.mkdir(parents=True, exist_ok=True)
    schedule.save(folder / "schedule.parquet")
    stored = PreparedStream.load(data)
    warn_of_boundary_weights(experiment, planner, stored, ranks)
    write_text(folder / NOTES, json.dumps(clock_notes(experiment.model, stored)))
    item = Item(planner.name, str(folder / "schedule.parquet"), str(data), experiment.hyper)
    run_epochs(make_training(experiment, item, folder), ranks)
    write_rivals(folder, score_stream_rivals(stored, experiment.training.batch_size * ranks))


def _require_whole_memory(experiment: StreamExperiment, planner: Strategy) -> None:
    """Check that what ranks validation events after training has all node memory as training left it. Raises UserError."""
    if isinstance(planner, SpreadStrategy) and experiment.protocol.published.validation:
        raise UserError(
            f"dataset.negatives.validation: strategy '{planner.name}' spreads memory over ranks and keeps none of before the validation; "
            "train with tgl-unique, or leave the key out: the test is ranked all the same"
        )
