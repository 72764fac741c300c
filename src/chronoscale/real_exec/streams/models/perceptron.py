"""Perceptron of the models of event streams that mix or attend over sequences."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Perceptron(nn.Module):
    """Two layers with GELU between them and dropout after each, on normalised rows: W_2 gelu(W_1 x + b_1) + b_2."""

    def __init__(self, width: int, inner: int, share: float) -> None:
        super().__init__()
        self.inner, self.outer, self.share = nn.Linear(width, inner), nn.Linear(inner, width), share

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows [..., width] to rows of the same shape."""
        hidden = functional.dropout(functional.gelu(self.inner(rows)), self.share, self.training)
        return functional.dropout(self.outer(hidden), self.share, self.training)
