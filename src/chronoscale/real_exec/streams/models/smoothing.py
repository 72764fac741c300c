"""Smoothing: how much of a shared node's memory is what this rank has made of it."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor, nn

BEGIN = 0.9  # of gamma


class Smoothing(nn.Module):
    """gamma * updated + (1 - gamma) * expected (MemShare §3.4, eq. 21), gamma a trained number between 0 and 1.

    The paper does not say where it begins; from one half it takes many epochs to leave.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), log(BEGIN / (1 - BEGIN))))  # gamma is its sigmoid

    def forward(self, updated: Tensor, expected: Tensor) -> Tensor:
        """Memory [n, H] as a rank has updated it, and as it is expected to be, [n, H]."""
        return torch.lerp(expected, updated, self.weight.sigmoid())
