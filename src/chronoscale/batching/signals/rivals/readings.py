"""Readings of the channel that models predict, in pieces: what rivals of forecasters read."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.signals.standardisation import read_steps
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.signals.signal import Signal


class Readings:
    """Readings of channel 0 of a signal, with NaN where there is none; rows before the first step and after the last one are NaN, too."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self.sensors = signal.num_nodes

    def steps(self, begin: int, end: int) -> Float64:
        """Read steps begin .. end - 1, float64 [end - begin, N]."""
        rows = np.full((end - begin, self.sensors), np.nan)
        first, last = max(begin, 0), min(end, len(self._signal))
        if first < last:
            rows[first - begin : last - begin] = read_steps(self._signal, first, last)[:, :, 0]
        return rows
