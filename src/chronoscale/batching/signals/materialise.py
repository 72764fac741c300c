"""Materialised windows: copied out of a signal, standardised (PGT-I Algorithm 1); what index-batching does without."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.signals.standardisation import Scaler, block_bounds, read_steps
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.signals.signal import Signal


def materialise(signal: Signal, windows: Windows, scale: Scaler, begin: int = 0, end: int | None = None) -> NDArray[np.floating]:
    """Copy windows begin .. end - 1 (None: all) of a signal, each with the steps after it that it predicts, into one array [windows, window
    + horizon, N, C] of the signal's dtype, NaN where there is no reading: the batches of a trainer without index-batching (PGT-I Algorithm
    1).

    Standardised by `scale` while it is copied, block by block: no second copy exists at any time.
    """
    last = len(windows) if end is None else end
    out: NDArray[np.floating] = np.empty((last - begin, windows.reach, signal.num_nodes, signal.num_channels), signal.values.dtype)
    for first, stop in block_bounds(signal, begin, min(last + windows.reach - 1, len(signal)) if last > begin else begin):
        block = read_steps(signal, first, stop)
        scale.apply(block, block)
        for place in range(windows.reach):  # step t stands at `place` of window t - place
            low, high = max(first - place, begin), min(stop - place, last)
            if low < high:
                out[low - begin : high - begin, place] = block[low + place - first : high + place - first]
    return out
