"""Retention: how much of a snapshot a sliding window keeps, by its age (FlareDTDG §3.2, §3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.errors import UserError


class Retention(Protocol):
    """Policy of how much of each snapshot a sliding window keeps, by its age, in chunks (small parts of the graph, see `Chunks`): fewer of
    older ones (FlareDTDG).

    Chunks are kept in one order, so that of two snapshots the one with fewer has a subset of the other's.
    """

    @property
    def window(self) -> int:
        """Number of snapshots in a window."""
        ...

    def kept_chunks(self, chunks: int) -> Int64:
        """Return how many of a graph's `chunks` chunks are kept of the snapshot of each age, int64 [window]; age 0 is the newest, which is
        whole."""
        ...


@dataclass(frozen=True, slots=True)
class Decay:
    """Retention that decays with age: how much of each snapshot in a sliding window is trained on (FlareDTDG §3.2).

    The `full` newest snapshots are whole; of the `decayed` ones before them, each retains floor(beta * N) of the N chunks (small parts of
    the graph) of the one after it, with beta the `decayed`-th root of `alpha`: the oldest keeps a share `alpha`. `lags`: ages (0: the
    newest) of snapshots that are whole all the same; hidden states of what younger ones have dropped start anew (§3.5).

    Raises UserError for no full snapshot, alpha outside (0, 1], and a lag outside the window.
    """

    full: int = 2
    decayed: int = 6
    alpha: float = 0.1
    lags: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.full < 1 or self.decayed < 0:
            raise UserError(f"training.full must be at least 1 and training.decayed at least 0, got {self.full} and {self.decayed}")
        if not 0 < self.alpha <= 1:
            condition = "above 0 and at most 1: the share that is kept of the oldest snapshot"
            raise UserError(f"training.alpha must be {condition}, got {self.alpha:g}")
        if any(not 0 <= lag < self.window for lag in self.lags):
            raise UserError(f"training.lags must lie in the window, 0..{self.window - 1} snapshots back, got {list(self.lags)}")

    @property
    def window(self) -> int:
        return self.full + self.decayed

    def kept_chunks(self, chunks: int) -> Int64:
        counts = [chunks] * self.full
        alpha = Fraction(Decimal(repr(self.alpha)))  # the number as it is written: 0.1 of 10 chunks is 1
        for _ in range(self.decayed):
            counts.append(_decayed_count(counts[-1], alpha, self.decayed))
        for lag in self.lags:
            counts[lag] = chunks
        return np.array(counts, np.int64)

    @property
    def broken(self) -> tuple[int, ...]:
        """Ages of snapshots that keep fewer chunks than an older one in the window: hidden states of chunks that only the older one keeps
        end there."""
        return tuple(age for age in range(self.window) if any(age < lag for lag in self.lags) and self._decays(age))

    def _decays(self, age: int) -> bool:
        return age >= self.full and age not in self.lags and self.alpha < 1


def _decayed_count(count: int, alpha: Fraction, root: int) -> int:
    """Return the largest n with n <= alpha^(1/root) count, without rounding: n^root <= alpha count^root."""
    most = alpha * count**root
    largest = int(count * float(alpha) ** (1 / root))
    while (largest + 1) ** root <= most:
        largest += 1
    while largest**root > most:
        largest -= 1
    return largest
