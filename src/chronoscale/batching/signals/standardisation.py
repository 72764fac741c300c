"""Standardisation of signals: mean and deviation a channel, computed in blocks, so that a mapped series never lies in memory whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Float64, Int64, prefetch_rows
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

Period = Literal["training", "windows", "series"]
BLOCK_BYTES = 1 << 18  # its copies stay in a core's cache


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of a signal's readings, from which a `Scaler` is fitted: count, mean and sum of squared deviations of each channel, float64
    [C] each. `+` joins those of disjoint readings (Chan et al. 1979), such as ranks'."""

    count: Float64
    mean: Float64
    squares: Float64

    @classmethod
    def none(cls, channels: int) -> Moments:
        """Return the moments of no readings, to which others are added."""
        return cls(np.zeros(channels), np.zeros(channels), np.zeros(channels))

    @classmethod
    def of(cls, values: NDArray[np.floating], weight: Int64 | None = None) -> Moments:
        """Compute the moments of a signal's readings [T, N, C], NaN left out; `weight` int64 [T]: how often each step counts (None:
        once)."""
        wide = values.astype(np.float64)
        times = np.ones(len(values)) if weight is None else weight.astype(np.float64)
        there = ~np.isnan(wide)
        count = np.einsum("tnc,t->c", there, times)
        np.copyto(wide, 0, where=~there)
        mean = np.einsum("tnc,t->c", wide, times) / np.maximum(count, 1)
        np.subtract(wide, mean, out=wide, where=there)
        squares = np.einsum("tnc,t->c", np.square(wide, out=wide), times)
        return cls(count, mean, squares)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        return Moments(count, self.mean + apart * share, self.squares + other.squares + apart**2 * self.count * share)


@dataclass(frozen=True, slots=True)
class Scaler:
    """Scaler of a signal's readings, before they are batched, to (x - mean) / deviation of their channel; both float64 [C]. A channel that
    never changes has a deviation of 1."""

    mean: Float64
    deviation: Float64

    @classmethod
    def from_moments(cls, moments: Moments) -> Scaler:
        """Build a scaler from the moments of readings, with the population deviation. Raises UserError for a channel without a reading."""
        if (moments.count == 0).any():
            raise UserError(f"channel {int(np.argmin(moments.count))} has no reading to standardise with")
        deviation = np.sqrt(moments.squares / moments.count)
        return cls(moments.mean, np.where(deviation > 1e-12 * np.maximum(np.abs(moments.mean), 1), deviation, 1.0))

    def apply(self, values: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Standardise readings, [..., C], into `out`, which may be the same array; NaN stays NaN."""
        np.subtract(values, self.mean.astype(values.dtype), out=out)
        np.divide(out, self.deviation.astype(out.dtype), out=out)


def read_steps(signal: Signal, begin: int, end: int, out: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
    """Copy steps begin .. end - 1 of a signal, [steps, N, C], with NaN where there is no reading; into `out`, where it is given.

    Pages of a mapped signal are given back to the system, so that its file does not gather in memory.
    """
    prefetch_rows(signal.values, begin, min(end, len(signal)))
    part = signal.values[begin:end]
    block: NDArray[np.floating] = np.empty(part.shape, part.dtype) if out is None else out
    np.copyto(block, part)
    if signal.missing is not None:
        block[signal.missing[begin:end]] = np.nan
    signal.release()
    return block


def block_bounds(signal: Signal, begin: int, end: int, size_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of consecutive blocks of steps, from step `begin` to `end` of a signal, of about `size_bytes` each, to read one by
    one."""
    row = max(signal.num_nodes * signal.num_channels * signal.values.dtype.itemsize, 1)
    size = max(size_bytes // row, 1)
    for at in range(begin, end, size):
        yield at, min(at + size, end)


def measure_moments(signal: Signal, windows: Windows, period: Period = "training", begin: int = 0, end: int | None = None) -> Moments:
    """Measure the moments (count, mean, deviations) of a signal's readings that batches are standardised by. Only steps begin .. end - 1
    are looked at, so that ranks can each take a part and add their moments; None: all.

    period "training": each step of the training period once (exact). "windows": each as often as training windows read it (PGT-I Algorithm
    1 and its code). "series": every step, test period included (upstream PyTorch Geometric Temporal).
    """
    last = len(signal) if period == "series" else windows.training_steps
    weight = windows.multiplicity if period == "windows" else None
    total = Moments.none(signal.num_channels)
    for first, stop in block_bounds(signal, begin, min(last, len(signal) if end is None else end)):
        total = total + Moments.of(read_steps(signal, first, stop), None if weight is None else weight[first:stop])
    return total


def fit_scaler(signal: Signal, windows: Windows, period: Period = "training") -> Scaler:
    """Fit the scaler that standardises a signal's batches to the steps that `period` names (see `measure_moments`). Raises UserError for a
    channel without a reading."""
    return Scaler.from_moments(measure_moments(signal, windows, period))


def standardise(signal: Signal, scale: Scaler, begin: int = 0, end: int | None = None) -> NDArray[np.floating]:
    """Standardise steps begin .. end - 1 (None: to the last) of a signal into one array, [steps, N, C] of the signal's dtype, NaN where
    there is no reading: the single copy that index-batching cuts windows from.

    The array is filled block by block: no second copy of the data exists at any time.
    """
    stop = len(signal) if end is None else end
    out = np.empty((stop - begin, signal.num_nodes, signal.num_channels), signal.values.dtype)
    for first, last in block_bounds(signal, begin, stop):
        block = read_steps(signal, first, last, out[first - begin : last - begin])
        scale.apply(block, block)
    return out
