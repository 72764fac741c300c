"""Training end: files that a training writes to its folder once its last epoch is over."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chronoscale.datasets.scores import Scores
from chronoscale.records import write_atomically

ENDED = "ended.json"  # in a training's folder, once its last epoch is over: `TrainingEnd`
PREDICTED_SNAPSHOTS = "predicted"  # in a training's folder: folder of what was predicted of each test snapshot, by its number
PREDICTED = "predicted.npy"  # in a training's folder, of a stream's test: logits of its events, float32 [events, width]
SCALE = "scale.json"  # in a training's folder, of forecasts: `TrainedScale`
HORIZON = "horizon.json"  # in a training's folder, of forecasts: period -> score -> its value at each step of the horizon
EVALUATION = "evaluation.json"  # in a training's folder, of a stream's: `EvaluationRecord`
TEST = "test.json"  # in a training's folder, where it has tested at its end: scores by key


@dataclass(frozen=True, slots=True)
class TrainedScale:
    """Content of SCALE in the folder of a training: the steps that its signal had, and mean and deviation of each channel."""

    steps: int
    mean: list[float]
    deviation: list[float]


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """Content of ENDED in the folder of a training: how many epochs were trained, and the one whose model is tested (None: the last)."""

    epochs: int
    best: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """Content of EVALUATION in the folder of a training: scores of the validation events by key, ranked against published negatives with
    the model that is tested, {} where there are none; and how long this took, and the test, in seconds; 0: not timed."""

    validation: Scores = field(default_factory=dict)
    validation_s: float = 0.0
    test_s: float = 0.0

    def save(self, folder: Path) -> None:
        """Write the record to the folder of a training, whole or not at all."""
        write_atomically(folder / EVALUATION, json.dumps(asdict(self)).encode())


def remove_end(folder: Path) -> None:
    """Remove what a training of fewer epochs wrote at its end, as it goes on."""
    for name in (ENDED, TEST, EVALUATION, HORIZON, PREDICTED):
        (folder / name).unlink(missing_ok=True)
    remove_predicted(folder, "*")


def remove_predicted(folder: Path, rank: str) -> None:
    """Remove what a rank ("*": every one) predicted of test snapshots before."""
    for file in (folder / PREDICTED_SNAPSHOTS).glob(f"[0-9]*.{rank}.npy"):
        file.unlink(missing_ok=True)
