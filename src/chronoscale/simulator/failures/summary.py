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
    def of(cls, results: Sequence[TrainingResult], epochs: int) -> FailureSummary:
        """Summarise simulated trainings, one a draw of when devices fail, at least one."""
        trained = sorted((result for result in results if result.ended == "trained"), key=lambda result: result.ns)
        spans = [result.ns / 1e9 for result in trained] or [float("nan")]
        median = trained[(len(trained) - 1) // 2] if trained else None
        return cls(
            epochs=epochs,
            training_s=spans[(len(spans) - 1) // 2],
            low_s=float(np.quantile(spans, 0.05)),
            high_s=float(np.quantile(spans, 0.95)),
            lost_s=float("nan") if median is None else median.lost_ns / 1e9,
            writing_s=float("nan") if median is None else median.writing_ns / 1e9,
            failures=float(np.mean([result.failures for result in results])),
            ranks=min(result.ranks for result in results),
            ended=dict(Counter(str(result.ended) for result in results).most_common()),
        )

    @property
    def ending(self) -> str:
        """Return in words how the draws ended, such as 'trained 9, stopped 1'."""
        return ", ".join(how if len(self.ended) == 1 else f"{how} {count}" for how, count in self.ended.items())
