"""Feeds: where the readings of a batch come from. All give the same batches, bit for bit, float [b, window + horizon, N, C], standardised.

Readings that are missing are NaN.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.signals.materialise import materialise
from chronoscale.batching.signals.standardisation import Moments, Period, Scaler, block_bounds, measure_moments, read_steps, standardise
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal
from chronoscale.real_exec.execution.lanes import used
from chronoscale.real_exec.execution.sending import sent
from chronoscale.strategies.signals.stores import ARRAY, DEVICE, PART, WINDOWS, Store

TRANSFER_BYTES = 1 << 26  # a block on its way to the device


class Feed(Protocol):
    """`scale` is known once `materialise` has run."""

    scale: Scaler
    windows: Windows

    def materialise(self) -> None:
        """What preparation does where the data lie."""
        ...

    def transfer(self) -> None:
        """Bring the data to the device, where they stay."""
        ...

    def measure(self, rank: int, ranks: int) -> Moments:
        """Moments of a rank's part of the training period."""
        ...

    def agree(self, total: Moments) -> None:
        """Take the moments of all ranks."""
        ...

    def read(self, starts: Int64) -> Tensor:
        """What a batch needs, in host memory (on the device for data that lie there): its windows, or the block that they are cut from."""
        ...

    def cut(self, read: Tensor, starts: Int64) -> Tensor:
        """The windows of a block that has reached the device."""
        ...


class LocalFeed:
    """What feeds of a signal at hand share."""

    def __init__(self, signal: Signal, windows: Windows, period: Period, device: torch.device) -> None:
        self.signal, self.windows, self.period, self.device = signal, windows, period, device
        self.scale: Scaler

    def materialise(self) -> None:
        self.scale = Scaler.from_moments(measure_moments(self.signal, self.windows, self.period))

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
        """Host memory for what goes to the device, pinned for a GPU."""
        sizes, kind = (*shape, self.signal.num_nodes, self.signal.num_channels), self.signal.values.dtype
        if self.device.type == "cuda":
            return torch.empty(sizes, dtype=torch.float64 if kind == np.float64 else torch.float32, pin_memory=True)
        return torch.from_numpy(np.empty(sizes, kind))  # freed aligned memory, as torch's, is not always found again by glibc


class Materialised(LocalFeed):
    """Every window copied out (PGT-I Algorithm 1, standardised as it is copied, so that no second copy exists)."""

    def materialise(self) -> None:
        super().materialise()
        self._copied = materialise(self.signal, self.windows, self.scale)

    def read(self, starts: Int64) -> Tensor:
        out = self.empty(len(starts), self.windows.reach)
        np.take(self._copied, starts, axis=0, out=out.numpy(), mode="clip")  # "raise" would fill a buffer first; starts are valid
        return out


class Indexed(LocalFeed):
    """One array, windows by start index (PGT-I §4.1)."""

    def materialise(self) -> None:
        super().materialise()
        self._data = standardise(self.signal, self.scale)

    def read(self, starts: Int64) -> Tensor:
        out = self.empty(len(starts), self.windows.reach)
        np.take(self._data, starts[:, None] + np.arange(self.windows.reach), axis=0, out=out.numpy(), mode="clip")
        return out


class Resident(LocalFeed):
    """One array on the device, transferred once (PGT-I §4.1)."""

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
        mean, deviation = sent(moments_of, self.device).to(self._data.dtype)
        used(self._data).sub_(mean).div_(deviation)

    def read(self, starts: Int64) -> Tensor:
        steps = sent(torch.from_numpy(starts[:, None] + np.arange(self.windows.reach)), self.device)
        return used(self._data).index_select(0, steps.ravel()).view(*steps.shape, *self._data.shape[1:])


class Mapped(LocalFeed):
    """A mapped signal of which a rank reads its part, one contiguous block a batch, standardised as it is read (PGT-I §5.4)."""

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


FEEDS: dict[Store, type[Materialised | Indexed | Resident | Mapped]] = {
    WINDOWS: Materialised, ARRAY: Indexed, DEVICE: Resident, PART: Mapped,
}  # fmt: skip
