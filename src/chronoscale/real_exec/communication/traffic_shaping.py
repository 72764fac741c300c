"""Traffic shaping: communication between ranks, held to the latency and bandwidth of a network that they do not have.

Every rank has one full-duplex card. From when the last rank has arrived, an operation takes a rank no less than the link's latency and, by
its bandwidth, the larger of what the rank sends and what it receives; the rest of that time is slept. As in the simulator
(`network.collective_times`), waiting for other ranks counts for nothing; the latency is that of an operation, however many rounds it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from chronoscale.real_exec.communication.collective import Collective, Numbers
from chronoscale.real_exec.communication.exchange import Exchange
from chronoscale.real_exec.execution.sleep import sleep_until
from chronoscale.real_exec.ranks.clock import own_clock
from chronoscale.strategies.cluster import Link


class ShapedCollective:
    """Collective of real ranks that takes as long as a given network link would: the rest of that time is slept.

    An all-reduce counts the bytes that a ring's would move, an all-gather the other ranks' rows, without padding.
    """

    def __init__(self, inner: Collective, link: Link) -> None:
        self.ranks, self.rank = inner.ranks, inner.rank
        self._inner = inner
        self._link = link

    def all_reduce(self, values: Tensor) -> None:
        begin = self._meet()
        self._inner.all_reduce(values)
        _hold(self._link, begin, 2 * (self.ranks - 1) / self.ranks * values.nbytes)

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        begin = self._meet()
        gathered = self._inner.all_gather(rows, counts)
        _hold(self._link, begin, gathered.nbytes - rows.nbytes)
        return gathered

    def barrier(self) -> None:
        _hold(self._link, self._meet(), 0)

    def sum_array(self, values: Numbers) -> Numbers:
        return self._inner.sum_array(values)

    def _meet(self) -> int:
        """Return when the last rank arrived, ns by rank 0's clock."""
        return int(self._inner.all_gather(_now(1), [1] * self.ranks).max())


class ShapedExchange:
    """Exchange of real ranks that takes as long as a given network link would: the rest of that time is slept.

    rank: this rank; in an all-to-all, what it sends to itself takes no time.
    """

    def __init__(self, inner: Exchange, link: Link, rank: int) -> None:
        self._inner = inner
        self._link = link
        self._rank = rank

    def send(self, values: Tensor, rank: int) -> None:
        own, other = _now(1), _now(1)
        self._inner.send(own, rank)
        self._inner.receive(other, rank)
        self._inner.send(values, rank)
        _hold(self._link, int(max(own, other)), values.nbytes)

    def receive(self, into: Tensor, rank: int) -> None:
        own, other = _now(1), _now(1)
        self._inner.receive(other, rank)
        self._inner.send(own, rank)
        self._inner.receive(into, rank)
        _hold(self._link, int(max(own, other)), into.nbytes)

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        times, ones = _now(len(rows)), [1] * len(rows)
        begin = torch.empty_like(times)
        self._inner.all_to_all(begin, times, ones, ones)
        self._inner.all_to_all(into, values, into_rows, rows)
        moved = max(sum(counts) - counts[self._rank] for counts in (into_rows, rows))
        _hold(self._link, int(begin.max()), moved * math.prod(values.shape[1:]) * values.element_size())


def _now(count: int) -> Tensor:
    """Return the current time by rank 0's clock, ns, as int64 [count, 1]."""
    return torch.full((count, 1), time.perf_counter_ns() + own_clock().offset.ahead)


def _hold(link: Link, begin: int, size: float) -> None:
    """Sleep until the link may have moved `size` bytes, counted from `begin` (ns by rank 0's clock)."""
    sleep_until(begin - own_clock().offset.ahead + round((link.latency_s + size / link.bandwidth) * 1e9))
