"""Worker tasks: what workers of the data engine run. It imports no torch, so that workers start, and restart, in a moment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.signals.materialise import materialise
from chronoscale.batching.signals.standardisation import Moments, Period, Scaler, measure_moments
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal


def materialise_windows(folder: str, windows: Windows, scale: Scaler, begin: int, end: int) -> NDArray[np.floating]:
    """Copy some windows of the signal stored in `folder` and standardise them, in a Dask worker; float [windows, window + horizon, N, C].

    begin, end: the windows are begin .. end - 1.
    """
    return materialise(_signal(folder), windows, scale, begin, end)


def signal_moments(folder: str, windows: Windows, period: Period, begin: int, end: int) -> Moments:
    """Return the moments (for mean and variance) of some steps of the signal stored in `folder`; runs in a Dask worker.

    period: over which steps the standardisation is measured. begin, end: the steps are begin .. end - 1.
    """
    return measure_moments(_signal(folder), windows, period, begin, end)


def take_windows(part: NDArray[np.floating], at: Int64) -> NDArray[np.floating]:
    """Return some of the windows that a Dask worker holds, for a batch. part: windows [n, …]; at: their places in it, int64 [b]."""
    return part[at]


def _signal(folder: str) -> Signal:
    signal = store.load(folder)
    assert isinstance(signal, Signal)
    return signal
