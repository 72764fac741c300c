"""Holding: what a worker of the data engine does. It imports no torch, so that workers start, and start again, in a moment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.signals.materialise import materialise
from chronoscale.batching.signals.standardisation import Moments, Period, Scaler, measure_moments
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal


def part_of(folder: str, windows: Windows, scale: Scaler, begin: int, end: int) -> NDArray[np.floating]:
    """Windows copied out of the stored signal."""
    return materialise(_signal(folder), windows, scale, begin, end)


def moments_of(folder: str, windows: Windows, period: Period, begin: int, end: int) -> Moments:
    """Moments of steps begin .. end - 1."""
    return measure_moments(_signal(folder), windows, period, begin, end)


def take(part: NDArray[np.floating], at: Int64) -> NDArray[np.floating]:
    """Some windows of a part."""
    return part[at]


def _signal(folder: str) -> Signal:
    found = store.load(folder)
    assert isinstance(found, Signal)
    return found
