"""Feeds: where the readings of a batch come from.

All feeds give the same batches, bit for bit: float [b, window + horizon, N, C], standardised; missing readings are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.batching.signals.materialise import materialise
from chronoscale.batching.signals.standardisation import Moments, Period, Scaler, block_bounds, measure_moments, read_steps, standardise
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal
from chronoscale.real_exec.execution.transfers import acquire, to_device
from chronoscale.strategies.signals.stores import ARRAY, DEVICE, PART, WINDOWS, Store

TRANSFER_BYTES = 1 << 26  # a block on its way to the device


class Feed(Protocol):
    """Source of a rank's batches of windows of a signal, during training.

    `scale`, the standardisation, is known once `materialise` has run.
    """

    scale: Scaler
    windows: Windows

    def materialise(self) -> None:
        """Prepare the signal on this rank where its batches will be read from: standardise it, or copy windows out."""
        ...

    def transfer(self) -> None:
        """Copy the signal to this rank's device, where it stays."""
        ...

    def measure(self, rank: int, ranks: int) -> Moments:
        """Return the moments (count, mean, squared deviations) of a rank's share of the signal's steps that the standardisation is measured
        on.
        """
        ...

    def agree(self, total: Moments) -> None:
        """Set the standardisation of this rank's readings by `total`, the moments of all ranks together."""
        ...

    def read(self, starts: Int64) -> Tensor:
        """Return a batch's windows, or the block of steps that they are cut from, in host memory; on the device for a signal that lies
        there.

        starts: first steps of the windows, int64 [b].
        """
        ...

    def cut(self, read: Tensor, starts: Int64) -> Tensor:
        """Return a batch's windows [b, window + horizon, N, C] from what `read` returned, once it has reached the device.

        starts: their first steps, int64 [b].
        """
        ...


class BaseFeed:
    """Base of the feeds of a signal that this rank reads itself."""

    def __init__(self, signal: Signal, windows: Windows, period: Period, device: torch.device) -> None:
        self.signal = signal
        self.windows = windows
        self.period = period
        self.device = device
        self.scale: Scaler

    def materialise(self) -> None:
        if not hasattr(self, "scale"):  # ranks have not agreed
            self.agree(self.measure(0, 1))

    def transfer(self) -> None:
        raise ValueError(f"{type(self).__name__} keeps no data on the device")

    def measure(self, rank: int, ranks: int) -> Moments:
        last = len(self.signal) if self.period == "series" else self.windows.training_steps
        begin, end = (-(-last * part // ranks) for part in (rank, rank + 1))
        return measure_moments(self.signal, self.windows, self.period, begin, end)

    def agree(self, total: Moments) -> None:
        self.scale = Scaler.from_moments(total)

    def cut(self, read: Tensor, starts: Int64) -> Tensor:
        return read

    def empty(self, *shape: int) -> Tensor:
        """Allocate host memory [*shape, N, C] for readings that go to this rank's device, pinned for a GPU."""
        sizes, kind = (*shape, self.signal.num_nodes, self.signal.num_channels), self.signal.values.dtype
        if self.device.type == "cuda":
            return torch.empty(sizes, dtype=torch.float64 if kind == np.float64 else torch.float32, pin_memory=True)
        return torch.from_numpy(np.empty(sizes, kind))  # freed aligned memory, as torch's, is not always found again by glibc


class MaterialisedFeed(BaseFeed):
    """Feed of a rank that copies every window out (PGT-I Algorithm 1), standardised as it is copied, so that no second copy exists."""

    def materialise(self) -> None:
        super().materialise()
        self._copied = materialise(self.signal, self.windows, self.scale)

    def read(self, starts: Int64) -> Tensor:
        out = self.empty(len(starts), self.windows.reach)
        np.take(self._copied, starts, axis=0, out=out.numpy(), mode="clip")  # "raise" would fill a buffer first; starts are valid
        return out


class IndexedFeed(BaseFeed):
    """Feed of a rank that has the signal once in host memory; windows are read by their start index (PGT-I §4.1)."""

    def materialise(self) -> None:
        super().materialise()
        self._data = standardise(self.signal, self.scale)

    def read(self, starts: Int64) -> Tensor:
        out = self.empty(len(starts), self.windows.reach)
        np.take(self._data, starts[:, None] + np.arange(self.windows.reach), axis=0, out=out.numpy(), mode="clip")
        return out


Standardised = NDArray[np.floating]
Share = Callable[[Callable[[], Standardised]], Standardised]


class VirtualFeed(IndexedFeed):
    """Feed of a virtual rank, whatever its strategy stores: the signal lies in memory once, standardised, for all ranks of the process."""

    def __init__(self, signal: Signal, windows: Windows, period: Period, device: torch.device, share: Share) -> None:
        """share: returns what the given function makes, which the first rank calls."""
        super().__init__(signal, windows, period, device)
        self._share = share

    def materialise(self) -> None:
        BaseFeed.materialise(self)
        self._data = self._share(lambda: standardise(self.signal, self.scale))

    def transfer(self) -> None:
        """Do nothing: the signal is where it is read."""


class DeviceFeed(BaseFeed):
    """Feed of a rank that has the signal once on its device, transferred once; windows are read there (PGT-I §4.1)."""

    def transfer(self) -> None:
        dtype = torch.float64 if self.signal.values.dtype == np.float64 else torch.float32
        shape = (len(self.signal), self.signal.num_nodes, self.signal.num_channels)
        self._data = torch.empty(shape, dtype=dtype, device=self.device)
        for begin, end in block_bounds(self.signal, 0, len(self.signal), TRANSFER_BYTES):
            part = self.empty(end - begin)
            read_steps(self.signal, begin, end, part.numpy())
            self._data[begin:end].copy_(part, non_blocking=True)

    def materialise(self) -> None:
        super().materialise()
        moments_of = torch.from_numpy(np.stack([self.scale.mean, self.scale.deviation]))
        mean, deviation = to_device(moments_of, self.device).to(self._data.dtype)
        acquire(self._data).sub_(mean).div_(deviation)

    def read(self, starts: Int64) -> Tensor:
        steps = to_device(torch.from_numpy(starts[:, None] + np.arange(self.windows.reach)), self.device)
        return acquire(self._data).index_select(0, steps.ravel()).view(*steps.shape, *self._data.shape[1:])


class MappedFeed(BaseFeed):
    """Feed of a memory-mapped signal: a rank reads its part, one contiguous block of steps a batch, standardised as it is read (PGT-I
    §5.4).
    """

    def read(self, starts: Int64) -> Tensor:
        if (np.diff(starts) != 1).any():
            raise ValueError("a block holds consecutive windows")
        begin, end = int(starts[0]), int(starts[-1]) + self.windows.reach
        out = self.empty(end - begin)
        block = read_steps(self.signal, begin, end, out.numpy())
        self.scale.apply(block, block)
        return out

    def cut(self, read: Tensor, starts: Int64) -> Tensor:
        steps = read.stride()
        windows = read.as_strided((len(starts), self.windows.reach, *read.shape[1:]), (steps[0], *steps))
        if self.device.type == "cuda":
            return windows.clone(memory_format=torch.contiguous_format)
        return self.empty(*windows.shape[:2]).copy_(windows)


FEEDS: dict[Store, type[MaterialisedFeed | IndexedFeed | DeviceFeed | MappedFeed]] = {
    WINDOWS: MaterialisedFeed, ARRAY: IndexedFeed, DEVICE: DeviceFeed, PART: MappedFeed,
}  # fmt: skip
