"""Forecaster: the base of all models on signals: windows in, horizons out."""

from __future__ import annotations

from torch import Tensor, nn


class Forecaster(nn.Module):
    """Model that forecasts a signal on a static graph, base of all that ranks train.

    It reads all values of a window; which calendar channels it reads, its module says.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Predict: map windows of a signal [B, window, N, C], in standardised units, any strides, to [B, horizon, N] of channel 0 in the
        same units.
        """
        raise NotImplementedError
