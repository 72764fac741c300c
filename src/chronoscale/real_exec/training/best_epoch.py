"""Best epoch: the model of the epoch with the best validation score, in a file of the training's folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from chronoscale.datasets.scores import scores_present
from chronoscale.real_exec.training.checkpoint import write_atomically
from chronoscale.records import reading

BEST = "best.pt"


def best_epoch(scores: Sequence[Mapping[str, float]]) -> int:
    """Return the first epoch that none beats by the first score that epochs have; the last epoch where nothing is scored."""
    kinds = scores_present(scores)
    if not kinds:
        return len(scores) - 1
    values = [epoch[kinds[0].key] for epoch in scores]
    return values.index(kinds[0].best(values))


def save_best(folder: Path, epoch: int, model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Save an epoch's model, and what else its plans keep (`Plans.kept`), as the best; the file is whole or not there."""
    content = io.BytesIO()
    torch.save({"epoch": epoch, "model": model.state_dict(), "state": dict(state)}, content)
    write_atomically(folder / BEST, content.getvalue())


def load_best(folder: Path, model: nn.Module, restore: Callable[[Mapping[str, Tensor]], None]) -> int:
    """Load the best epoch's model, pass the rest that was saved to `restore`, and return the epoch's number.

    Raises UserError for a file that is missing, damaged or of another model.
    """
    with reading(folder / BEST, "best epoch of this model"):
        saved = torch.load(folder / BEST, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        restore(saved["state"])
        return int(saved["epoch"])
