"""Outcome of a comparison: what every strategy's trainings reached, when, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.scores import Score
from chronoscale.harness.compare.target import Target
from chronoscale.strategies.costs import Floats

INF = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """What one strategy's trainings reached in a comparison.

    group: the strategies that train alike; their curves are one training's, their epochs are timed apart. rate: the learning rate that was
    chosen. curves: seed -> score on validation after each epoch. test: seed -> score of the best epoch's model on the test, where there is
    one. passes_s: seconds of each timed epoch. steps, targets: of an epoch. peak_bytes: of the fullest rank's device; moved_bytes: over the
    bus and between ranks in an epoch, of all ranks. failed: seed -> the number that was not finite.
    """

    name: str
    group: tuple[str, ...]
    rate: float
    curves: Mapping[int, tuple[float, ...]]
    test: Mapping[int, float]
    passes_s: tuple[float, ...]
    steps: int
    targets: int
    peak_bytes: int
    moved_bytes: int
    failed: Mapping[int, str]

    @property
    def epoch_s(self) -> float:
        """Return the median of the timed epochs, s."""
        return float(np.median(self.passes_s))

    def epochs_to(self, target: Target) -> Floats:
        """Return the epochs after which each seed's training first meets the target, float64 [seeds]; infinity where it never does."""
        firsts = []
        for curve in self.curves.values():
            met = [number + 1 for number, value in enumerate(curve) if target.met(value)]
            firsts.append(met[0] if met else INF)
        return np.array(firsts, np.float64)

    def best(self, score: Score) -> Floats:
        """Return each seed's best score, float64 [seeds]; NaN for a training without any."""
        return np.array([score.best(curve) for curve in self.curves.values()], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that a run of `chronoscale compare` found out, in the order of the experiment.

    naive: score on validation of predictions without a model, by name. ranks, epochs, seeds: that were trained.
    """

    score: Score
    target: Target
    outcomes: tuple[StrategyOutcome, ...]
    naive: Mapping[str, float]
    ranks: int
    epochs: int
    seeds: tuple[int, ...]
