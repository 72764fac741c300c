"""Training: epochs of one strategy, resumable after any of them, as the experiment's family trains."""

from __future__ import annotations

from functools import partial

from chronoscale.harness.execute.machine import seat
from chronoscale.harness.execute.profiles import rough
from chronoscale.harness.idle import warn
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import FOLDER, idle, result
from chronoscale.reports.training_run import TrainingRun


def train(experiment: Experiment, run: Run) -> TrainingRun:
    """Train, and keep a timeline of both planes. Raises as `Trained.train`."""
    ranks = max(experiment.ranks)
    seat(experiment, [ranks])
    practice_of(experiment).train(experiment, run, partial(rough, experiment, run, ranks))
    done = result(run, ranks)
    warn(idle(run))
    write_text(run.folder / FOLDER / "timeline.json", done.chrome())
    return done
