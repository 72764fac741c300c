"""Best epoch: the model of the epoch with the best validation score, in a file of the training's folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from chronoscale.datasets.scores import scores_present
from chronoscale.records import reading, write_atomically

BEST = "best.pt"


def best_epoch(scores: Sequence[Mapping[str, float]]) -> int:
    """Return the epoch of a training with the best validation score, the first of equal ones; the last epoch where nothing is scored.

    scores: one mapping an epoch; the first kind of score that epochs have decides.
    """
    kinds = scores_present(scores)
    if not kinds:
        return len(scores) - 1
    values = [epoch[kinds[0].key] for epoch in scores]
    return values.index(kinds[0].best(values))


def save_best(folder: Path, epoch: int, model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Save the model of the best epoch so far to `best.pt` in the folder of a training, completely or not at all.

    state: what else its plans restore with the model (`Plans.extra_state`).
    """
    content = io.BytesIO()
    torch.save({"epoch": epoch, "model": model.state_dict(), "state": dict(state)}, content)
    write_atomically(folder / BEST, content.getvalue())


def load_best(folder: Path, model: nn.Module, restore: Callable[[Mapping[str, Tensor]], None]) -> int:
    """Load the best epoch's model from the folder of a training into `model`, and return the epoch's number.

    restore: is given the other state that was saved. Raises UserError for a file that is missing, damaged or of another model.
    """
    with reading(folder / BEST, "best epoch of this model"):
        saved = torch.load(folder / BEST, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        restore(saved["state"])
        return int(saved["epoch"])
