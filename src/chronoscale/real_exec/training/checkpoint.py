"""Checkpoint: what training records of every epoch, so that it can go on after the last whole one.

In the folder of a training run: `epochs/<number>.json`, and `checkpoint.pt` after every epoch.
"""

from __future__ import annotations

import io
import json
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chronoscale.datasets.scores import Scores
from chronoscale.real_exec.execution.graph_blocks import LaunchSummary
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.training.plans import Plans
from chronoscale.records import read_json, reading, write_atomically

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Record of one trained epoch, as rank 0 writes it. Times are ns of the system's clock.

    plan, stage, strategy: those that the epoch followed. switch_ns: time spent on taking up a new plan before it. losses: one value an
    iteration. scores: of validation, by key; empty where nothing validates. rates: the lowest and the highest learning rate of a step.
    counts: those of `EpochResult`. launched: how rows were launched, where CUDA graphs were requested. ranks: that trained it; 0: not
    recorded.
    """

    epoch: int
    plan: int
    stage: str
    strategy: str
    switch_ns: int
    start_ns: int
    end_ns: int
    losses: tuple[float, ...]
    scores: Scores
    rates: tuple[float, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    launched: LaunchSummary | None = None
    ranks: int = 0

    @property
    def loss(self) -> float:
        """Return the mean training loss over the epoch's iterations."""
        return sum(self.losses) / max(len(self.losses), 1)


def epoch_records(folder: Path, known: Container[int] = ()) -> list[EpochRecord]:
    """Read the records of all trained epochs from the folder of a training, in order. known: numbers of epochs to leave out."""
    files = sorted(path for path in (folder / "epochs").glob("[0-9]*.json") if path.stem.isdecimal())
    return [read_json(path, EpochRecord, "record of an epoch") for path in files if int(path.stem) not in known]


def save_epoch(folder: Path, record: EpochRecord, learner: Learner[Any], extra: Mapping[str, Tensor]) -> None:
    """Write a trained epoch's record, and the checkpoint to resume from after it, to the folder of a training; rank 0 calls it.

    extra: what the plans restore besides model and optimiser (`Plans.extra_state`). Each file is written completely or not at all.
    """
    write_atomically(folder / "epochs" / f"{record.epoch:06d}.json", json.dumps(asdict(record)).encode())
    content = io.BytesIO()  # torch reports a full disk by an error of its own
    state = {"model": learner.model.state_dict(), "optimizer": learner.optimizer.state_dict(), "kept": dict(extra)}
    torch.save({"epoch": record.epoch + 1, **state}, content)
    write_atomically(folder / CHECKPOINT, content.getvalue())


def restore(folder: Path, plans: Plans, device: torch.device) -> int:
    """Load the last checkpoint of a training on this rank, into model, optimiser and plans; return the epoch to go on with, 0 without a
    checkpoint.

    Raises UserError for a checkpoint of another model.
    """
    path, learner = folder / CHECKPOINT, plans.learner
    if not path.exists():
        return 0
    with reading(path, "checkpoint of this model", "delete it to train from the first epoch on"):
        saved = torch.load(path, map_location=device, weights_only=True)
        learner.model.load_state_dict(saved["model"])
        learner.optimizer.load_state_dict(saved["optimizer"])
        for parameter in (trained for group in learner.optimizer.param_groups for trained in group["params"]):
            for name, value in learner.optimizer.state.get(parameter, {}).items():
                if value.shape not in ((), parameter.shape):
                    raise ValueError(f"{name} of the optimiser is {list(value.shape)}, its parameter {list(parameter.shape)}")
        if type(saved["epoch"]) is not int or saved["epoch"] < 0:
            raise ValueError(f"epoch {saved['epoch']!r}")
        plans.restore(saved["kept"])
        return int(saved["epoch"])
