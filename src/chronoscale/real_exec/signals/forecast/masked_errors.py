"""Masked errors: errors of predictions where there is a target; NaN marks a missing reading."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def masked_sum(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of a forecast's absolute errors, for the training loss, and the number of readings it is over (int64).

    Targets that are NaN (missing readings) are left out; gradients hold no NaN. Shapes are equal.
    """
    known = ~torch.isnan(target)
    error = (prediction - torch.where(known, target, prediction.detach())).abs()
    return error.sum(), known.sum()


@dataclass(frozen=True, slots=True, eq=False)
class MaskedErrors:
    """Sums of a forecast's errors, for validation and test scores; missing readings (NaN) are left out.

    sums: float64 [5]: absolute, squared and relative errors, the number of targets, the number that the relative error is over. Sums of
    ranks and batches add up. A mean of nothing is NaN.
    """

    sums: Tensor = field(default_factory=lambda: torch.zeros(5, dtype=torch.float64))

    @classmethod
    def of(cls, prediction: Tensor, target: Tensor, threshold: float = 1e-3) -> MaskedErrors:
        """Sum up the errors of a forecast, tensors of equal shapes, on their device. Targets that are NaN (missing readings) are left out.

        threshold: targets of magnitude up to it (0 or more) have no relative error.
        """
        known = ~torch.isnan(target)  # picking out what is there would make the host wait for its number
        truth = target.detach().masked_fill(~known, 0).double()
        error = (prediction.detach().double() - truth).abs().masked_fill_(~known, 0)
        size = truth.abs()
        relative = size > threshold
        share = (error / size).masked_fill_(~relative, 0)
        return cls(torch.stack((error.sum(), error.square().sum(), share.sum(), known.sum().double(), relative.sum().double())))

    def __add__(self, other: MaskedErrors) -> MaskedErrors:
        return MaskedErrors(self.sums + other.sums)

    @property
    def targets(self) -> int:
        """Return the number of readings that were predicted and are not missing."""
        return int(self.sums[3])

    @property
    def mae(self) -> float:
        """Return the mean absolute error of the forecast."""
        return float(self.sums[0] / self.sums[3])

    @property
    def rmse(self) -> float:
        """Return the root of the mean squared error of the forecast."""
        return float((self.sums[1] / self.sums[3]).sqrt())

    @property
    def mape(self) -> float:
        """Return the mean relative error of the forecast, as a share."""
        return float(self.sums[2] / self.sums[4])

    @property
    def scores(self) -> dict[str, float]:
        """Return the forecast's MAE, RMSE and MAPE by key; empty where there was no target."""
        return {"mae": self.mae, "rmse": self.rmse, "mape": self.mape} if self.targets else {}
