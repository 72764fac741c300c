"""Checkpoint: what training records of every epoch, so that it can go on after the last whole one.

In the folder of a training run: `epochs/<number>.json`, and `checkpoint.pt` after every epoch.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.training.plans import Plans
from chronoscale.records import reading, write_atomically

CHECKPOINT = "checkpoint.pt"


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
