"""Host: what rows of features take to come to the device, by counts and rates; those of the host are measured here."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32
from chronoscale.harness.study.hooks.fast_traffic import Sent
from chronoscale.strategies.streams.models import FP32

PCIE = 32e9  # bytes a second, FAST §1: PCIe 4.0 with 16 lanes
TABLE, PICKED, REPEATS = 1 << 29, 100_000, 7  # bytes of the table that is gathered from, rows at once


@dataclass(frozen=True, slots=True)
class Rates:
    """gather: bytes of rows a second that the host picks out of a table; look: ids a second that it looks through for repetitions; bus:
    bytes a second."""

    gather: float
    look: float
    bus: float = PCIE

    def seconds(self, sent: Sent) -> float:
        """Of an epoch, one thing after another."""
        return sent.bytes / self.gather + (sent.bytes + sent.indices) / self.bus + sent.compressed / self.look

    def __str__(self) -> str:
        looked = f"{self.look / 1e6:.0f} million ids a second looked through for repetitions"
        return f"rows gathered at {self.gather / 1e9:.1f} GB/s and {looked}, both measured here, {self.bus / 1e9:g} GB/s of PCIe (§1)"


def rates(width: int, ids: Int32) -> Rates:
    """Medians, of random rows of `width` numbers out of a table larger than caches, and of a batch's ids [n]."""
    table = torch.zeros(TABLE // (width * FP32), width)
    rows, into = torch.from_numpy(np.random.default_rng(0).integers(0, len(table), PICKED)), torch.empty(PICKED, width)
    picked = _median(lambda: torch.index_select(table, 0, rows, out=into))
    return Rates(PICKED * width * FP32 / picked, ids.size / _median(lambda: unique_ids(ids)))


def _median(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
