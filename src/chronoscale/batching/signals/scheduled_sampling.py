"""ScheduledSampling: when a decoder reads what was true of the step before, in training, and when what it has predicted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.streams.draws import derive_key, draw_fraction
from chronoscale.errors import UserError

FLAT = 700.0  # exp of it is still finite
TEACHING = 5  # what a seed is for, beside orders and dropout


@dataclass(frozen=True, slots=True)
class ScheduledSampling:
    """Scheduled sampling of a training on a signal, by inverse sigmoid decay (Bengio et al., NIPS 2015; DCRNN, Li et al., §2.4).

    In iteration i (of all epochs, from 0) a decoder's step reads the true value of the step before with probability tau / (tau + exp(i /
    tau)), else its own prediction. As in DCRNN's code all windows of a batch read alike; what is drawn follows from seed, epoch and batch,
    so that it is the same on every rank and after a restart.

    decay: tau, in iterations, above 0. iterations: of an epoch. horizon: steps that are decoded. Raises UserError for a decay that is none.
    """

    decay: float
    iterations: int
    horizon: int
    seed: int

    def __post_init__(self) -> None:
        if not 0 < self.decay < math.inf:
            raise UserError(f"training.teacher_decay: expected a number of iterations above 0, got {self.decay:g}")

    def probability(self, iteration: int) -> float:
        """Return the probability, 0 to 1, with which a step of an iteration reads what was true."""
        exponent = iteration / self.decay - math.log(self.decay)
        return 1 / (1 + math.exp(exponent)) if exponent < FLAT else 0.0

    def taught(self, epoch: int, batch: int) -> tuple[bool, ...]:
        """Return for each step of the horizon but the last whether the next one reads its true value, in a batch (its number in the epoch,
        from 0); horizon - 1 of them."""
        drawn = draw_fraction(derive_key(self.seed, TEACHING, epoch, batch), np.arange(self.horizon - 1), 0)
        return tuple((drawn < self.probability(epoch * self.iterations + batch)).tolist())
