"""Smoothing: how much of a shared node's memory is what this rank has made of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Smoothing(nn.Module):
    """gamma * updated + (1 - gamma) * expected (MemShare §3.4, eq. 21), gamma a trained number between 0 and 1, one half at first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))  # gamma is its sigmoid

    def forward(self, updated: Tensor, expected: Tensor) -> Tensor:
        """Memory [n, H] as a rank has updated it, and as it is expected to be, [n, H]."""
        return torch.lerp(expected, updated, self.weight.sigmoid())
