"""Tuning of windows (`training.tune`): settings compared on the validation part before the best trains (FlareDTDG §3.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.scores import scores_present
from chronoscale.errors import UserError
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.runs.training_record import NOTES
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.records import read_json
from chronoscale.strategies.flaredtdg.strategy import WindowStrategy
from chronoscale.strategies.flaredtdg.tuning import TuningResult, tune
from chronoscale.strategies.strategy import Strategy

TUNING = "tuning.json"  # in the folder of a training: a TuningResult


def tuned_experiment(
    experiment: SnapshotExperiment,
    planner: Strategy,
    folder: Path,
    train: Callable[[SnapshotExperiment, Path], None],
    fits: Callable[[SnapshotExperiment], bool],
) -> SnapshotExperiment:
    """Return the experiment with the window settings that validated best, for `training.tune` of `chronoscale train` (FlareDTDG §3.5).

    The search runs once a run and is read from `folder` after that; without `training.tune` the experiment is returned as it is. train:
    trains an experiment into a folder, always from the same initial weights. fits: says whether one fits in memory. Raises UserError for a
    strategy whose windows do not follow `training.full` and `training.alpha`, and as `tune`.
    """
    if not experiment.training.tune:
        return experiment
    decay = experiment.hyper.recency.decay
    if not isinstance(planner, WindowStrategy) or planner.keeps(experiment.hyper.recency) != decay:
        raise UserError(f"training.tune: strategy '{planner.name}' does not follow training.full and training.alpha; leave it out")
    if not (folder / TUNING).exists():

        def loss(decay: Decay) -> float:
            where = folder / "tuning" / f"{decay.full}-{decay.alpha:g}"
            train(_with(experiment, decay).model_copy(update={"epochs": experiment.training.tune_epochs}), where)
            last = epoch_records(where)[-1].scores
            first = scores_present([last])[0]
            return last[first.key] if first.better == "lower" else -last[first.key]

        result = tune(decay, loss, lambda decay: fits(_with(experiment, decay)))
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / NOTES, json.dumps([sentence(result)]))
        write_text(folder / TUNING, json.dumps(asdict(result), indent=1))
    return _with(experiment, read_json(folder / TUNING, TuningResult, "record of tuning").decay)


def sentence(result: TuningResult) -> str:
    """Return the note that a training's results carry on `training.tune`: which settings were tried, and which validated best."""
    tried = [trial for trial in result.trials if trial.fits]
    left = len(result.trials) - len(tried)
    rest = f"; {left} more did not fit in memory" * bool(left)
    each = ", ".join(f"({trial.full}, {trial.alpha:g}) {abs(trial.loss or 0.0):.4g}" for trial in tried)
    return (
        f"training.tune: of {len(tried)} settings (full, alpha) that were tried, full {result.decay.full} and alpha {result.decay.alpha:g} "
        f"validated best{rest} ({TUNING}): {each}."
    )


def _with(experiment: SnapshotExperiment, decay: Decay) -> SnapshotExperiment:
    changed = {"full": decay.full, "decayed": decay.decayed, "alpha": decay.alpha}
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=changed)})
