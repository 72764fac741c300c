"""Endured: what becomes of a training whose devices fail, over draws of when they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chronoscale.simulator.faults import Outcome


@dataclass(frozen=True, slots=True)
class Endured:
    """Of a training of `epochs` epochs. training_s: to its end, however it ends, the median draw; low_s, high_s: what a twentieth of the
    draws stays below, and what a twentieth exceeds. lost_s, writing_s: of the median draw, as `faults.Outcome`. failures: the mean. ranks:
    at the end of the draw that has fewest left. ended: how, and how many draws.
    """

    epochs: int
    training_s: float
    low_s: float
    high_s: float
    lost_s: float
    writing_s: float
    failures: float
    ranks: int
    ended: Mapping[str, int]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], epochs: int) -> Endured:
        """Of one draw or more."""
        spans = np.array([one.ns for one in outcomes])
        middle = outcomes[int(np.argsort(spans, kind="stable")[(len(spans) - 1) // 2])]
        low, high = (float(np.quantile(spans, q)) / 1e9 for q in (0.05, 0.95))
        failures, ranks = float(np.mean([one.failures for one in outcomes])), min(one.ranks for one in outcomes)
        ended = dict(Counter(str(one.ended) for one in outcomes).most_common())
        return cls(epochs, middle.ns / 1e9, low, high, middle.lost_ns / 1e9, middle.writing_ns / 1e9, failures, ranks, ended)

    @property
    def told(self) -> str:
        """How it ended, in words."""
        return ", ".join(how if len(self.ended) == 1 else f"{how} {count}" for how, count in self.ended.items())
