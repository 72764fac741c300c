"""Sliding windows over a signal: how many there are, their split and size, and which rank gets which of them in an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int64
from chronoscale.errors import UserError

TRAIN, TEST = 0.7, 0.2  # shares of the windows, the rest validates (PGT-I §3.1, as Li et al., ICLR 2018)


@dataclass(frozen=True, slots=True)
class Windows:
    """Sliding windows of a signal, the samples of its training: all placements of `window` readings and the `horizon` readings after them
    (which are predicted) on `steps` time steps.

    Window s reads steps s .. s + window - 1 and predicts s + window .. s + window + horizon - 1. They are split in time: the first 70 %
    train, the next 10 % validate, the last 20 % test (rounded as PGT-I's code does). Raises UserError where none fits.
    """

    steps: int
    window: int = 12
    horizon: int = 12

    def __post_init__(self) -> None:
        if min(self.window, self.horizon) < 1:
            raise UserError(f"window and horizon must be at least 1, got {self.window} and {self.horizon}")
        if self.steps < self.reach:
            short = f"a series of {self.steps} steps is shorter than window {self.window} + horizon {self.horizon}"
            raise UserError(f"{short}; say how many are to be read and predicted, such as training: {{window: 4, horizon: 2}}")

    @property
    def reach(self) -> int:
        """Number of steps from the first that a window reads to the last that it predicts."""
        return self.window + self.horizon

    def __len__(self) -> int:
        """Number of windows: entries - (2 horizon - 1) of PGT-I eq. 1, for any window and horizon."""
        return self.steps - self.reach + 1

    @property
    def train(self) -> range:
        return range(round(len(self) * TRAIN))

    @property
    def validation(self) -> range:
        return range(len(self.train), len(self) - len(self.test))

    @property
    def test(self) -> range:
        return range(max(len(self) - round(len(self) * TEST), len(self.train)), len(self))

    @property
    def training_steps(self) -> int:
        """Number of steps that training windows read, 0 .. training_steps - 1: the training period. At least one window trains."""
        return len(self.train) + self.window - 1

    @property
    def multiplicity(self) -> Int64:
        """How many training windows read each step of the training period, int64 [training_steps]."""
        position = np.arange(self.training_steps, dtype=np.int64)
        most = min(self.window, len(self.train))
        return np.asarray(np.minimum(np.minimum(position, position[::-1]) + 1, most), np.int64)

    def materialised_bytes(self, nodes: int, channels: int, itemsize: int) -> int:
        """Compute the bytes that inputs and targets of all windows take where each is copied out of the signal: PGT-I eq. 1, 2 (entries -
        (2 h - 1)) h nodes features for window = horizon = h. itemsize: bytes a value."""
        return len(self) * self.reach * nodes * channels * itemsize

    def index_bytes(self, nodes: int, channels: int, itemsize: int, index_itemsize: int = 8) -> int:
        """Compute the bytes that index-batching takes instead: one copy of the signal and the start of each window (PGT-I eq. 2). itemsize:
        bytes a value; index_itemsize: bytes a start."""
        return self.steps * nodes * channels * itemsize + len(self) * index_itemsize


@dataclass(frozen=True, slots=True)
class WindowAssignment:
    """Assignment of an epoch's windows of a signal to `ranks` ranks (training processes) in batches of `batch` windows; every rank computes
    it for itself, without communication.

    Global: a permutation of all windows, drawn from (seed, epoch); optimiser step i takes the next ranks * batch of them, an even share a
    rank. Local (generalized distributed index-batching, PGT-I §5.4): each rank has a fixed, contiguous part of the windows and cuts it into
    batches of consecutive ones; the order of batches is shuffled, what is in them is not. Every window comes once an epoch; the last batch
    may be smaller, on some ranks empty. `shuffled` False: in order of time (validation). Raises UserError for counts below 1.
    """

    windows: range
    ranks: int = 1
    batch: int = 64
    local: bool = False
    shuffled: bool = True
    seed: int = 0
    limit: int = 0  # optimiser steps an epoch at most, the first ones; 0: all

    def __post_init__(self) -> None:
        if min(self.ranks, self.batch) < 1 or self.limit < 0:
            raise UserError(f"ranks and batch_size must be at least 1, got {self.ranks} and {self.batch}")

    @property
    def iterations(self) -> int:
        """Number of optimiser steps in an epoch, the same on every rank."""
        per = self.batch if self.local else self.batch * self.ranks
        largest = -(-len(self.windows) // self.ranks) if self.local else len(self.windows)
        count = -(-largest // per)
        return min(count, self.limit) if self.limit else count

    def part(self, rank: int) -> range:
        """Return the windows that a rank can ever get: its own part if the assignment is local, else all."""
        if not self.local:
            return self.windows
        size, more = divmod(len(self.windows), self.ranks)
        begin = self.windows.start + rank * size + min(rank, more)
        return range(begin, begin + size + (rank < more))

    def sizes(self) -> Int64:
        """Return how many windows each rank has in each optimiser step, int64 [iterations, ranks]. Local: the largest first, whatever the
        epoch's order."""
        step = np.arange(self.iterations, dtype=np.int64)[:, None]
        rank = np.arange(self.ranks, dtype=np.int64)[None, :]
        if self.local:
            own = np.array([len(self.part(r)) for r in range(self.ranks)], np.int64)[None, :]
            return np.asarray(np.clip(own - step * self.batch, 0, self.batch), np.int64)
        together = np.clip(len(self.windows) - step * self.batch * self.ranks, 0, self.batch * self.ranks)
        return np.asarray(together // self.ranks + (rank < together % self.ranks), np.int64)

    def starts(self, rank: int, epoch: int) -> list[Int64]:
        """Return the windows of one rank in one epoch, by their first steps: an int64 array for each optimiser step, as long as `sizes`
        says."""
        sizes = self.sizes()
        if self.local:
            return self._local(rank, epoch, sizes[:, rank])
        order = np.arange(self.windows.start, self.windows.stop, dtype=np.int64)
        if self.shuffled:
            np.random.default_rng([self.seed, epoch]).shuffle(order)
        ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)[:, rank]
        return [order[end - size : end] for end, size in zip(ends.tolist(), sizes[:, rank].tolist(), strict=True)]

    def _local(self, rank: int, epoch: int, sizes: Int64) -> list[Int64]:
        """Return a rank's whole batches in random order; the short one stays last, so that a step's batch has the size that was planned."""
        part = np.arange(self.part(rank).start, self.part(rank).stop, dtype=np.int64)
        batches = [part[at : at + self.batch] for at in range(0, len(part), self.batch)]
        whole = [batch for batch in batches if len(batch) == self.batch]
        if self.shuffled:
            whole = [whole[i] for i in np.random.default_rng([self.seed, epoch, rank]).permutation(len(whole))]
        dealt = [*whole, *batches[len(whole) :]]
        dealt += [part[:0]] * max(self.iterations - len(dealt), 0)
        return dealt[: len(sizes)]
