"""Tuning: `training.tune`: settings of windows compared on the validation part before the best of them trains (FlareDTDG §3.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.scores import scores_present
from chronoscale.errors import UserError
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.runs.training_record import NOTES
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.real_exec.training.checkpoint import records
from chronoscale.records import read_json
from chronoscale.strategies.flaredtdg.strategy import WindowStrategy
from chronoscale.strategies.flaredtdg.tuning import TuningResult, tune
from chronoscale.strategies.strategy import Strategy

TUNING = "tuning.json"  # in the folder of a training: a Tuned


def tuned(
    experiment: SnapshotExperiment,
    planner: Strategy,
    folder: Path,
    train: Callable[[SnapshotExperiment, Path], None],
    fits: Callable[[SnapshotExperiment], bool],
) -> SnapshotExperiment:
    """The experiment with what is found, or was found when the run was begun; as it is where it asks for none.

    train: an experiment, into a folder, with the same weights to begin with. Raises UserError for a strategy whose windows do not follow
    `training.full` and `training.alpha`, and as `tune`.
    """
    if not experiment.training.tune:
        return experiment
    decay = experiment.hyper.recency.decay
    if not isinstance(planner, WindowStrategy) or planner.keeps(experiment.hyper.recency) != decay:
        raise UserError(f"training.tune: strategy '{planner.name}' does not follow training.full and training.alpha; leave it out")
    if not (folder / TUNING).exists():

        def loss(one: Decay) -> float:
            where = folder / "tuning" / f"{one.full}-{one.alpha:g}"
            train(_with(experiment, one).model_copy(update={"epochs": experiment.training.tune_epochs}), where)
            last = records(where)[-1].scores
            first = scores_present([last])[0]
            return last[first.key] if first.better == "lower" else -last[first.key]

        found = tune(decay, loss, lambda one: fits(_with(experiment, one)))
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / NOTES, json.dumps([told(found)]))
        write_text(folder / TUNING, json.dumps(asdict(found), indent=1))
    return _with(experiment, read_json(folder / TUNING, TuningResult, "record of tuning").decay)


def told(found: TuningResult) -> str:
    """What was tried, in words."""
    tried = [trial for trial in found.trials if trial.fits]
    left = len(found.trials) - len(tried)
    rest = f"; {left} more did not fit in memory" * bool(left)
    each = ", ".join(f"({trial.full}, {trial.alpha:g}) {abs(trial.loss or 0.0):.4g}" for trial in tried)
    return (
        f"training.tune: of {len(tried)} settings (full, alpha) that were tried, full {found.decay.full} and alpha {found.decay.alpha:g} "
        f"validated best{rest} ({TUNING}): {each}."
    )


def _with(experiment: SnapshotExperiment, decay: Decay) -> SnapshotExperiment:
    changed = {"full": decay.full, "decayed": decay.decayed, "alpha": decay.alpha}
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=changed)})
