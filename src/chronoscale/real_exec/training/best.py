"""Best: the model of the epoch that scored best, and what else it predicts with."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from chronoscale.datasets.scores import scores_present
from chronoscale.real_exec.training.checkpoint import replaced
from chronoscale.records import reading

BEST = "best.pt"


def best_of(scores: Sequence[Mapping[str, float]]) -> int:
    """The first epoch of those that nothing beats by the first score that they have; the last one where nothing is scored."""
    kinds = scores_present(scores)
    if not kinds:
        return len(scores) - 1
    values = [epoch[kinds[0].key] for epoch in scores]
    return values.index(kinds[0].best(values))


def keep_best(folder: Path, epoch: int, model: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """There whole or not at all. `kept`: as of `Plans`."""
    content = io.BytesIO()
    torch.save({"epoch": epoch, "model": model.state_dict(), "state": dict(kept)}, content)
    replaced(folder / BEST, content.getvalue())


def restore_best(folder: Path, model: nn.Module, restore: Callable[[Mapping[str, Tensor]], None]) -> int:
    """Bring both back, the one to the model, the other by `restore`; the epoch that it was.

    Raises UserError for a file that is missing, damaged or of another model."""
    with reading(folder / BEST, "best epoch of this model"):
        saved = torch.load(folder / BEST, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        restore(saved["state"])
        return int(saved["epoch"])
