"""Failure summary: how long a training lasts whose devices fail, over many draws of when they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chronoscale.simulator.failures.training import TrainingResult


@dataclass(frozen=True, slots=True)
class FailureSummary:
    """Summary of simulated trainings of `epochs` epochs, one a draw of when devices fail.

    training_s: until training is complete, the median draw; low_s, high_s: the 5 % and 95 % quantiles of the draws; NaN where no draw
    completes. lost_s, writing_s: of the median draw, time lost to failures and time spent on checkpoints. failures: the mean. ranks: at the
    end of the draw that has fewest left. ended: how draws ended, and how many did so.
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
    def of(cls, outcomes: Sequence[TrainingResult], epochs: int) -> FailureSummary:
        """Summarise the results of one draw or more."""
        trained = sorted((one for one in outcomes if one.ended == "trained"), key=lambda one: one.ns)
        spans = [one.ns / 1e9 for one in trained] or [float("nan")]
        low, middle, high = spans[0], spans[(len(spans) - 1) // 2], spans[-1]
        if trained:
            low, high = (float(np.quantile(spans, q)) for q in (0.05, 0.95))
        whose = trained[(len(trained) - 1) // 2] if trained else None
        lost, writing = (float("nan"), float("nan")) if whose is None else (whose.lost_ns / 1e9, whose.writing_ns / 1e9)
        failures, ranks = float(np.mean([one.failures for one in outcomes])), min(one.ranks for one in outcomes)
        ended = dict(Counter(str(one.ended) for one in outcomes).most_common())
        return cls(epochs, middle, low, high, lost, writing, failures, ranks, ended)

    @property
    def ending(self) -> str:
        """How the draws ended, in words."""
        return ", ".join(how if len(self.ended) == 1 else f"{how} {count}" for how, count in self.ended.items())
