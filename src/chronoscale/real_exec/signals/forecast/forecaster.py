"""Forecaster: the base of all models on signals: windows in, horizons out."""

from __future__ import annotations

from collections.abc import Sequence

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

    def teach(self, x: Tensor, truth: Tensor, taught: Sequence[bool]) -> Tensor:
        """Predict as `forward` does, in training by scheduled sampling: a decoder reads the true values of some steps.

        truth: [B, horizon, N], what is to be predicted, in the same units; where it is NaN, the prediction is read all the same. taught:
        for each step of the horizon but the last, whether the next one reads its truth. Raises NotImplementedError for models that do not
        decode.
        """
        raise NotImplementedError(f"{type(self).__name__} has no decoder to teach")
