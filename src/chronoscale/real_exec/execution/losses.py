"""Notes: what iterations leave on the device until their pass has ended."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor


class LossShare(NamedTuple):
    """A number of an iteration, float32, no dimensions."""

    iteration: int
    value: Tensor


class Losses:
    """A rank's shares of the losses of a pass; they stay on the device until it has ended."""

    def __init__(self) -> None:
        self.shares: list[LossShare] = []

    def add(self, iteration: int, share: Tensor) -> None:
        """A scalar, added to the iteration's others."""
        self.shares.append(LossShare(iteration, share.detach()))

    def finish(self) -> dict[int, float]:
        """Sums by iteration; the next pass starts from none."""
        shares: defaultdict[int, list[Tensor]] = defaultdict(list)
        for note in self.shares:
            shares[note.iteration].append(note.value)
        self.shares.clear()
        return {iteration: float(torch.stack(added).sum()) for iteration, added in shares.items()}
