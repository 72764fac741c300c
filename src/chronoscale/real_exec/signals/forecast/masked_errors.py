"""Masked errors: errors of predictions where there is a target; NaN marks a missing reading."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def masked_sum(prediction: Tensor, target: Tensor, squared: bool = False) -> tuple[Tensor, Tensor]:
    """Return the sum of a forecast's absolute or squared errors, for the training loss, and the number of readings it is over (int64).

    Targets that are NaN (missing readings) are left out; gradients hold no NaN. Shapes are equal.
    """
    known = ~torch.isnan(target)
    error = prediction - torch.where(known, target, prediction.detach())
    return (error.square() if squared else error.abs()).sum(), known.sum()


@dataclass(frozen=True, slots=True, eq=False)
class MaskedErrors:
    """Sums of a forecast's errors, for validation and test scores; missing readings (NaN) are left out.

    sums: float64 [5]: absolute, squared and relative errors, the number of targets, the number that the relative error is over; or those of
    each step of the horizon, [horizon, 5]. Sums of ranks and batches add up. A mean of nothing is NaN.
    """

    sums: Tensor = field(default_factory=lambda: torch.zeros(5, dtype=torch.float64))

    @classmethod
    def of(cls, prediction: Tensor, target: Tensor, threshold: float = 1e-3, by_step: bool = False) -> MaskedErrors:
        """Sum up the errors of a forecast, tensors of equal shapes, on their device. Targets that are NaN (missing readings) are left out.

        threshold: targets of magnitude up to it (0 or more) have no relative error. by_step: sum those of each step for itself, of
        forecasts [B, horizon, N].
        """
        known = ~torch.isnan(target)  # picking out what is there would make the host wait for its number
        truth = target.detach().masked_fill(~known, 0).double()
        error = (prediction.detach().double() - truth).abs().masked_fill_(~known, 0)
        size = truth.abs()
        relative = size > threshold
        share = (error / size).masked_fill_(~relative, 0)
        parts = error, error.square(), share, known.double(), relative.double()
        return cls(torch.stack([part.sum((0, 2)) if by_step else part.sum() for part in parts], -1))

    def __add__(self, other: MaskedErrors) -> MaskedErrors:
        return MaskedErrors(self.sums + other.sums)

    @property
    def targets(self) -> int:
        """Return the number of readings that were predicted and are not missing."""
        return int(self._whole[3])

    @property
    def mae(self) -> float:
        """Return the mean absolute error of the forecast."""
        return float(self._whole[0] / self._whole[3])

    @property
    def rmse(self) -> float:
        """Return the root of the mean squared error of the forecast."""
        return float((self._whole[1] / self._whole[3]).sqrt())

    @property
    def mape(self) -> float:
        """Return the mean relative error of the forecast, as a share."""
        return float(self._whole[2] / self._whole[4])

    @property
    def scores(self) -> dict[str, float]:
        """Return the forecast's MAE, RMSE and MAPE by key; empty where there was no target."""
        return {"mae": self.mae, "rmse": self.rmse, "mape": self.mape} if self.targets else {}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Return MAE, RMSE and MAPE of each step of the horizon by key, [horizon] each; NaN for a step without a target."""
        of_steps = [MaskedErrors(sums) for sums in self.sums]
        return {"mae": [s.mae for s in of_steps], "rmse": [s.rmse for s in of_steps], "mape": [s.mape for s in of_steps]}

    @property
    def _whole(self) -> Tensor:
        return self.sums.reshape(-1, 5).sum(0) if self.sums.dim() > 1 else self.sums
