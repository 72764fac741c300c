"""`training.tune` under `train`: settings that are tried on the validation part, kept, told, and trained with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import command, one_line

from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.runs.training_record import noted
from chronoscale.harness.workflows.snapshots.tuning import TUNING, tuned_experiment
from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG

TRAINING: dict[str, Any] = {"task": "degrees", "validation": 0.2, "tune": True, "tune_epochs": 1, "full": 1, "decayed": 2, "chunks": 4}


def written(folder: Path, **changes: Any) -> Path:
    given = {
        "dataset": {"name": "growth_small"}, "model": {"name": "t-gcn", "hidden": 4, "layers": 1}, "strategies": ["flaredtdg"],
        "training": {**TRAINING, **changes.pop("training", {})}, "ranks": [1], "groups": 12, "epochs": 2, **changes,
    }  # fmt: skip
    path = folder / "tuned.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training": {"validation": 0.0}},
            "training.tune: true, and training.validation is 0: settings are compared on it; hold out a share, such as 0.2",
        ),
        (
            {"strategies": ["full-history"]},
            "training.tune: strategy 'full-history' does not follow training.full and training.alpha; leave it out",
        ),
        ({"training": {"lags": [2]}}, "training.tune: it looks for how much older snapshots keep; leave out training.lags, got [2]"),
    ],
)
def test_what_cannot_be_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str) -> None:
    command("train", str(written(tmp_path, **changes)), "--runs", str(tmp_path / "runs"), expect=2)
    assert message in one_line(capsys)


def trained(trials: list[tuple[int, int, float, int]], key: str, worth: Any) -> Any:
    """Leaves what validation came to in two epochs; the last counts."""

    def train(one: SnapshotExperiment, folder: Path) -> None:
        t = one.training
        trials.append((t.full, t.decayed, t.alpha, one.epochs))
        (folder / "epochs").mkdir(parents=True)
        for epoch, value in enumerate((9.0 if key == "mse" else 0.0, worth(t.full, t.alpha))):
            record = EpochRecord(epoch, 0, "training", "flaredtdg", 0, 0, 1, (0.0,), {key: value})
            (folder / "epochs" / f"{epoch:06d}.json").write_text(json.dumps(asdict(record)))

    return train


@pytest.mark.parametrize(("key", "sign"), [("mse", 1), ("accuracy", -1)])
def test_the_best_setting_trains(tmp_path: Path, key: str, sign: int) -> None:
    """Least loss, or most accuracy; each is trained for so many epochs, and a run that goes on trains none again."""
    experiment, trials, folder = load(written(tmp_path)), list[tuple[int, int, float, int]](), tmp_path / "train"
    assert isinstance(experiment, SnapshotExperiment)

    def worth(full: int, alpha: float) -> float:
        return 0.5 + sign * (0.01 * abs(full - 2) + abs(alpha - 0.3))

    train = trained(trials, key, worth)
    best = tuned_experiment(experiment, FLAREDTDG, folder, train, lambda one: one.training.full < 3)
    assert (best.training.full, best.training.decayed, best.training.alpha, best.epochs) == (2, 1, 0.3, 2)
    assert (
        trials and all(full + decayed == 3 and epochs == 1 for full, decayed, _, epochs in trials) and all(full < 3 for full, *_ in trials)
    )
    (note,) = noted(folder)
    assert "full 2 and alpha 0.3 validated best; " in note and "did not fit in memory (tuning.json): (2, 0.1) " in note
    assert {trial["fits"] for trial in json.loads((folder / TUNING).read_text())["trials"]} == {True, False}
    count = len(trials)
    assert tuned_experiment(experiment, FLAREDTDG, folder, train, lambda one: True) == best and len(trials) == count


def test_without_the_key_nothing_is_tried(tmp_path: Path) -> None:
    experiment = load(written(tmp_path, training={"tune": False}))
    assert isinstance(experiment, SnapshotExperiment)
    assert tuned_experiment(experiment, FLAREDTDG, tmp_path / "train", trained([], "mse", None), lambda one: True) is experiment
    assert not (tmp_path / "train").exists()
