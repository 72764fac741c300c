"""Best: the model and the node state of the epoch that scored best."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from chronoscale.datasets.scores import present
from chronoscale.kept import reading
from chronoscale.real_exec.checkpoint import replaced
from chronoscale.real_exec.streams.state import NodeState

BEST = "best.pt"


def best_of(scores: Sequence[Mapping[str, float]]) -> int:
    """The first epoch of those that nothing beats by the first score that they have; the last one where nothing is scored."""
    kinds = present(scores)
    if not kinds:
        return len(scores) - 1
    values = [epoch[kinds[0].key] for epoch in scores]
    return values.index(kinds[0].best(values))


def keep_best(folder: Path, epoch: int, model: nn.Module, state: NodeState) -> None:
    """There whole or not at all."""
    content = io.BytesIO()
    torch.save({"epoch": epoch, "model": model.state_dict(), "state": state.tables()}, content)
    replaced(folder / BEST, content.getvalue())


def restore_best(folder: Path, model: nn.Module, state: NodeState) -> int:
    """Bring both back; the epoch that it was. Raises UserError for a file that is missing, damaged or of another model."""
    with reading(folder / BEST, "best epoch of this model"):
        saved = torch.load(folder / BEST, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        state.restore(saved["state"])
        return int(saved["epoch"])
