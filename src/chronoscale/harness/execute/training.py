"""Training: epochs of one strategy, resumable after any of them."""

from __future__ import annotations

from functools import partial

from chronoscale.harness.execute.machine import check_seats
from chronoscale.harness.execute.profiles import rough_costs
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.idle import warn_of_idle_ranks
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, idle_ranks, result
from chronoscale.harness.workflows.execution_registry import execution_of
from chronoscale.reports.training_run import TrainingRun


def run_training(experiment: Experiment, run: Run) -> TrainingRun:
    """Train an experiment for `chronoscale train`, in its run's folder; return its epochs, and write a timeline (timeline.json) of them
    unless ranks are virtual.

    Raises as `Execution.train` and `check_seats`.
    """
    ranks = max(experiment.ranks)
    check_seats(experiment, [ranks])
    execution_of(experiment.family).train(experiment, run, partial(rough_costs, experiment, run, ranks))
    training = result(run, ranks)
    warn_of_idle_ranks(idle_ranks(run))
    if not experiment.virtual:
        write_text(run.folder / FOLDER / "timeline.json", training.chrome())
    return training
