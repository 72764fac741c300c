"""Forecaster: the base of all models on signals: windows in, horizons out."""

from __future__ import annotations

from torch import Tensor, nn


class Forecaster(nn.Module):
    """A model of signals on a static graph. It reads all values of a window; which calendar channels it reads, its module says."""

    def forward(self, x: Tensor) -> Tensor:
        """Map windows [B, window, N, C], in standardised units, any strides, to [B, horizon, N] of channel 0 in the same units."""
        raise NotImplementedError
