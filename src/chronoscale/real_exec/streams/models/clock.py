"""Clock: encodings of elapsed time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.strategies.streams.kinds.base import DECIBELS


class Clock(nn.Module):
    """Encoding of elapsed times for models of event streams: cos(w t + b), both trained.

    It is TGAT §3.1 in the form of its code, which TGN (Rossi et al. 2020, §3.1) and TGL took over. The paper has pairs cos(w t), sin(w t),
    which a phase makes of a cosine. At first w_i = 10^(-9 i / (width - 1)) and b = 0, as in these codes: periods from 6 to 6e9 units of
    time. On the scale `log` t is 10 log10(1 + t), in decibels, so that a ratio is the same step wherever it is, and nearly whatever the
    unit; the papers have no such scale. On `both`, t is encoded as published, and slots have the decibels beside that (`beside`).

    On `gaps`, the default, t is divided by the standard deviation of the gaps between a node's events in training (`set_unit`), which
    checkpoints hold, and slots have the decibels of t beside it. Where t is 1e6, one bit of w = 1 turns an angle by 0.06 rad, and an
    optimiser's step of 1e-3 by 1000: on unix seconds a published clock learns from noise, and ranks part. The mean gap is a unit too short:
    angles of gaps that are longer than those of training come out of nowhere (docs/measured/streams.md).
    """

    unit: Tensor | None

    def __init__(self, width: int, scale: str = "linear") -> None:
        super().__init__()
        self._log, self._beside = scale == "log", scale in DECIBELS
        self.register_buffer("unit", torch.ones(()) if scale == "gaps" else None)
        self.frequency = nn.Parameter(torch.from_numpy(10.0 ** -np.linspace(0, 9, width)).float())
        self.phase = nn.Parameter(torch.zeros(width))

    def set_unit(self, deviation: float) -> None:
        """Set the unit of elapsed times on the scale `gaps`: the standard deviation of gaps between a node's events; 0 is taken as 1."""
        if self.unit is not None:
            self.unit.fill_(deviation or 1.0)

    def forward(self, elapsed: Tensor) -> Tensor:
        """Return the encodings [n, width] of elapsed times [n]."""
        return encode(self.reading(elapsed), self.frequency, self.phase)

    def reading(self, elapsed: Tensor) -> Tensor:
        """Return elapsed times on the clock's scale, before they are encoded."""
        if self.unit is not None:
            return elapsed / self.unit
        return decibels(elapsed) if self._log else elapsed

    def beside(self, elapsed: Tensor) -> Tensor | None:
        """Return a number for each elapsed time [T, K] beside its encoding, [T, K, 1], of about the same size; None where the clock has
        none.
        """
        return decibels(elapsed)[..., None] / 10 if self._beside else None

    def zero(self) -> Tensor:
        """Return the encoding of no elapsed time, [width]."""
        return self.phase.cos()


def decibels(elapsed: Tensor) -> Tensor:
    """Return elapsed times t on a logarithmic scale, 10 log10(1 + t): 0 where no time has passed."""
    return 10 * torch.log10(1 + elapsed)
