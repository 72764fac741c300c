"""Rivals of models that predict numbers of nodes on snapshots, such as degrees: forecasts of each node's own series, without a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from chronoscale.batching.rivals.rival import RivalScores, choose_rival
from chronoscale.batching.signals.rivals.constant import LAST, MEAN
from chronoscale.batching.snapshots.held_out import SnapshotSplit
from chronoscale.datasets.arrays import Float32, Float64

RATES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7)  # of exponential smoothing
Values = Callable[[int], Float32]  # of a snapshot: float32 [N, outputs]


class SeriesRival(ABC):
    """Forecast of every node's numbers from those that it had in the snapshots so far, which it is shown in order.

    name, meaning: as of a `batching.rivals.rival.Rival`.
    """

    name: str
    meaning: str

    @abstractmethod
    def observe(self, values: Float32) -> None:
        """Take in the next snapshot's numbers, float32 [N, outputs]."""

    @abstractmethod
    def predict(self, ahead: int) -> Float64:
        """Predict the numbers `ahead` snapshots after the last that was shown, float64 [N, outputs]."""


class LastValue(SeriesRival):
    """Rival that repeats each node's last numbers."""

    name = LAST
    meaning = "each node's numbers in the last snapshot that is known"

    def observe(self, values: Float32) -> None:
        self._values = values.astype(np.float64)

    def predict(self, ahead: int) -> Float64:
        return self._values


class TrainingMean(SeriesRival):
    """Rival that predicts each node's mean over the training snapshots."""

    name = MEAN
    meaning = "each node's mean over the training snapshots"

    def __init__(self, mean: Float64) -> None:
        self._mean = mean

    def observe(self, values: Float32) -> None:
        """Learn nothing more."""

    def predict(self, ahead: int) -> Float64:
        return self._mean


class LineSoFar(SeriesRival):
    """Rival that goes on along each node's least-squares line through all snapshots so far; with `slope` False its mean so far."""

    def __init__(self, slope: bool) -> None:
        self._slope, self._count = slope, 0
        self.name = "linear trend" if slope else "mean so far"
        self.meaning = f"each node's {'least-squares line through' if slope else 'mean over'} all snapshots so far"

    def observe(self, values: Float32) -> None:
        if not self._count:
            self._sum, self._moment = np.zeros(values.shape), np.zeros(values.shape)
        self._sum += values
        self._moment += self._count * values.astype(np.float64)
        self._count += 1

    def predict(self, ahead: int) -> Float64:
        n = self._count
        mean: Float64 = self._sum / n
        if not self._slope or n < 2:
            return mean
        middle = (n - 1) / 2
        slope = (self._moment - middle * self._sum) / (n * (n**2 - 1) / 12)
        line: Float64 = mean + slope * (n - 1 + ahead - middle)
        return line


class Smoothing(SeriesRival):
    """Rival that predicts each node's exponentially smoothed numbers: what lasts of them (Brown 1956)."""

    name = "exponential smoothing"

    def __init__(self, rate: float, chosen: str) -> None:
        """chosen: by what `rate` was chosen, a clause."""
        self._rate, self._level = rate, np.zeros(0)
        self.meaning = f"each node's numbers so far, smoothed exponentially, the newest with weight {rate:g}, {chosen}"

    def observe(self, values: Float32) -> None:
        self._level = values.astype(np.float64) if not self._level.size else self._level + self._rate * (values - self._level)

    def predict(self, ahead: int) -> Float64:
        return self._level


def score_series_rivals(values: Values, split: SnapshotSplit, part: range, horizon: int) -> list[RivalScores]:
    """Compute the mean squared errors on the snapshots `part` of forecasts without a network, from what is `horizon` snapshots before and
    earlier.

    values: the numbers to predict, by snapshot. The rate of exponential smoothing is the best on the validation snapshots, or where nothing
    validates on the last quarter of training's. Scores are empty where `part` is.
    """
    training = split.training
    choosing = split.validation or range(max(3 * training.stop // 4, min(horizon, training.stop)), training.stop)
    chosen = "which validation chose" if split.validation else "which the last quarter of training chose"
    mean: Float64 = sum((values(t).astype(np.float64) for t in training), np.zeros(())) / len(training)
    smoothed = [Smoothing(rate, chosen) for rate in RATES]
    fixed: list[SeriesRival] = [LastValue(), TrainingMean(mean), LineSoFar(True), LineSoFar(False)]
    rivals = [*fixed, *smoothed]
    sums = {of: np.zeros((len(rivals), 2)) for of in (part, choosing)}
    for t in range(max(part.stop, choosing.stop)):
        if t >= horizon:
            known = values(t - horizon)
            for rival in rivals:
                rival.observe(known)
        for of, total in sums.items():
            if t in of and t >= horizon:
                total += [_squares(rival.predict(horizon), values(t)) for rival in rivals]
    tried = dict(zip(smoothed, sums[choosing][len(fixed) :], strict=True))
    best = choose_rival(smoothed, lambda rival: _scores(tried[rival]))
    return [
        RivalScores(rival.name, rival.meaning, _scores(total))
        for rival, total in zip(rivals, sums[part], strict=True)
        if rival in fixed or rival is best
    ]


def _squares(predicted: Float64, truth: Float32) -> tuple[float, int]:
    return float(np.square(predicted - truth).sum()), truth.size


def _scores(sums: Float64) -> dict[str, float]:
    squared, count = sums.tolist()
    return {"mse": squared / count} if count else {}
