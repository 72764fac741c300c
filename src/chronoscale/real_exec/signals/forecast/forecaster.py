"""Forecaster: the base of all models on signals: windows in, horizons out."""

from __future__ import annotations

from torch import Tensor, nn

from chronoscale.batching.signals.standardisation import Scaler


class Forecaster(nn.Module):
    """Model that forecasts a signal on a static graph, base of all that ranks train.

    It reads all values of a window; which calendar channels it reads, its module says. dropout: share of its hidden values that training
    leaves out.
    """

    dropout = 0.0

    def standardise(self, scale: Scaler) -> None:
        """Tell the model the mean and deviation by which the channels of its windows are standardised; most models ignore them."""

    def forward(self, x: Tensor) -> Tensor:
        """Predict: map windows of a signal [B, window, N, C], in standardised units, any strides, to [B, horizon, N] of channel 0 in the
        same units.
        """
        raise NotImplementedError
