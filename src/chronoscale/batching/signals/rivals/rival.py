"""Rival of forecasters: a prediction of a signal that trains no network."""

from __future__ import annotations

from abc import ABC, abstractmethod

from chronoscale.batching.signals.rivals.readings import Readings
from chronoscale.datasets.arrays import Float64


class SignalRival(ABC):
    """Prediction of a signal that trains no network: of the `horizon` steps after a window, for every sensor.

    name, meaning: as of a `batching.rivals.rival.Rival`.
    """

    name: str
    meaning: str

    @abstractmethod
    def predict(self, readings: Readings, ends: range, horizon: int) -> Float64:
        """Predict the steps after windows that end before step `ends[b]`: float64 [horizon, B, N], NaN where there is no prediction.

        Of step ends[b] + h, [h, b] of the result, nothing from step ends[b] on is read. The result may be a view that repeats rows.
        """
