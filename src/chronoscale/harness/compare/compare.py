"""Comparison of strategies by time to one target, as a run: all timed in turns in one job, each mathematics trained from several seeds."""

from __future__ import annotations

from typing import Any

from chronoscale.errors import UserError
from chronoscale.harness.compare.trainings import OnProgress, Trainings
from chronoscale.harness.execute.execution import execute
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.runs.run_folder import Run
from chronoscale.strategies import registry


def compared(experiment: Experiment) -> Experiment:
    """Return the experiment that `chronoscale compare` runs: on the largest of its rank counts, and, where it names no strategies, with all
    of its family that execute and take its hyper-parameters, but ablations of others.

    Raises UserError where fewer than one is left, and where nothing validates.
    """
    changes: dict[str, Any] = {"ranks": [max(experiment.ranks)]}
    if "strategies" not in experiment.model_fields_set:
        every = registry.of(experiment.family).items()
        changes["strategies"] = [
            name
            for name, planner in every
            if planner.executes and not planner.ablates and not planner.solves and not planner.refuses(experiment.hyper)
        ]
    if not experiment.validates:
        raise UserError("compare: nothing validates, so that no training has a score; set training.validation, such as 0.2")
    return parse(experiment.model_dump(mode="json", exclude_unset=True) | changes, "compare")


def compare(experiment: Experiment, run: Run, on_progress: OnProgress) -> Trainings:
    """Time and train everything for `chronoscale compare`, or go on where an interrupted run of it stopped.

    experiment: as `compared` returns it. on_progress: called with a line of text for each thing that is done. Raises as `execute`, and
    MachineError for a lost rank: what was trained is kept.
    """
    on_progress("timing epochs, all strategies in turns")
    execute(experiment, run, on_progress=on_progress)
    trainings = Trainings(experiment, run)
    trainings.train(on_progress)
    return trainings
