"""What every forecaster is: windows in, horizons out."""

from __future__ import annotations

from torch import Tensor, nn


class Forecaster(nn.Module):
    """A model of signals on a static graph. Of a window it reads all values, and of the calendar's channels behind them what its module
    says."""

    def forward(self, x: Tensor) -> Tensor:
        """Windows [B, window, N, C], in standardised units, any strides, to [B, horizon, N] of channel 0 in the same units."""
        raise NotImplementedError
