"""Time encodings."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class Clock(nn.Module):
    """cos(w t + b), both trained: TGAT §3.1 in the form of its code, which TGN (Rossi et al. 2020, §3.1) and TGL took over.

    The paper has pairs cos(w t), sin(w t), which a phase makes of a cosine. At first w_i = 10^(-9 i / (width - 1)) and b = 0, as in these
    codes: periods from 6 to 6e9 units of time.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.from_numpy(10.0 ** -np.linspace(0, 9, width)).float())
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, elapsed: Tensor) -> Tensor:
        """Elapsed times [...] to encodings [..., width]. Angles are formed in float64: in float32 the cosine of a large one is noise."""
        angle = torch.addcmul(self.phase.double(), elapsed[..., None].double(), self.frequency.double())
        return angle.cos().to(self.phase.dtype)

    def zero(self) -> Tensor:
        """The encoding of 0, [width]."""
        return self.phase.cos()
