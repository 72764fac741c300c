"""Losses: a rank's shares of the losses of a pass, left on the device until the pass has ended."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor


class LossShare(NamedTuple):
    """A rank's share of the loss of an iteration: a scalar float32 tensor on its device."""

    iteration: int
    value: Tensor


class Losses:
    """A rank's shares of the losses of a pass, left on the device until it ends, for reading them would make the host wait for a GPU."""

    def __init__(self) -> None:
        self.shares: list[LossShare] = []

    def add(self, iteration: int, share: Tensor) -> None:
        """Add a scalar tensor to this rank's share of the loss of an iteration; its gradients are cut off."""
        self.shares.append(LossShare(iteration, share.detach()))

    def finish(self) -> dict[int, float]:
        """Return the sum of this rank's shares for each iteration, and reset for the next pass."""
        shares: defaultdict[int, list[Tensor]] = defaultdict(list)
        for note in self.shares:
            shares[note.iteration].append(note.value)
        self.shares.clear()
        return {iteration: float(torch.stack(added).sum()) for iteration, added in shares.items()}
