"""Clock: times of ranks on several machines on one scale, that of rank 0's clock."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from chronoscale.datasets.arrays import Int64

ROUNDS = 32  # round trips of one measurement, of which the fastest counts


class Offset(NamedTuple):
    """What a measurement says of a machine's clock: at its time `at`, rank 0's was `ahead` further, give or take `error`; all ns."""

    at: int
    ahead: int
    error: int

    @classmethod
    def of(cls, trips: Int64) -> Offset:
        """Return the offset by the fastest of some round trips. trips: int64 [trips, 3], ns: sent by the own clock, answered by rank 0's,
        received by the own. However the trip divides, the answer was given between the other two: half of it is the error.
        """
        sent, answered, received = (int(moment) for moment in trips[np.argmin(trips[:, 2] - trips[:, 0])])
        middle = (sent + received) // 2
        return cls(middle, answered - middle, (received - sent + 1) // 2)


class RankClock:
    """Clock of this rank beside those of ranks on other machines, which it is measured against before and after a pass.

    In between, two clocks are taken to drift apart evenly. Ranks of one machine share its clock; on one machine nothing is measured.
    """

    def __init__(self, rank: int = 0, first_ranks: tuple[int, ...] = (0,), group: dist.ProcessGroup | None = None) -> None:
        """first_ranks: the first rank of each machine. group: all ranks, by gloo; None: the default group."""
        self._rank, self._first_ranks, self._group = rank, first_ranks, group
        self._machine = int(np.searchsorted(first_ranks, rank, side="right")) - 1
        self.offset = Offset(0, 0, 0)  # as measured last

    @classmethod
    def of(cls, rank: int, ranks: int, local_rank: int, group: dist.ProcessGroup | None) -> RankClock:
        """Return the clock of a rank that has met others; called on every rank. group: as of `__init__`."""
        is_first = torch.zeros(ranks, dtype=torch.int64)
        is_first[rank] = int(local_rank == 0)
        dist.all_reduce(is_first, group=group)
        return cls(rank, tuple(is_first.nonzero().flatten().tolist()), group)

    def measure(self) -> Int64:
        """Measure every machine's clock against rank 0's, one after another; return an `Offset` a machine, int64 [machines, 3], the first
        one's 0. Called on every rank.
        """
        offsets = torch.zeros(len(self._first_ranks), 3, dtype=torch.int64)
        for machine, other in enumerate(self._first_ranks):
            if other and self._rank == 0:
                for _ in range(ROUNDS):
                    self._receive(other)
                    self._send(time.perf_counter_ns(), other)
            elif other and self._rank == other:
                trips = np.zeros((ROUNDS, 3), np.int64)
                for trip in trips:
                    trip[0] = time.perf_counter_ns()
                    self._send(0, 0)
                    trip[1] = self._receive(0)
                    trip[2] = time.perf_counter_ns()
                offsets[machine] = torch.tensor(Offset.of(trips))
        if len(self._first_ranks) > 1:
            dist.all_reduce(offsets, group=self._group)
        self.offset = Offset(*offsets[self._machine].tolist())
        measured: Int64 = offsets.numpy()
        return measured

    def to_common(self, times: Int64, before: Int64, after: Int64) -> Int64:
        """Return times of this rank's `time.perf_counter_ns` as rank 0's clock has them, int64 ns; before, after: of `measure`, around
        them.
        """
        begin, end = (Offset(*offsets[self._machine].tolist()) for offsets in (before, after))
        drift = (end.ahead - begin.ahead) / max(end.at - begin.at, 1)
        aligned: Int64 = times + begin.ahead + np.rint((times - begin.at) * drift).astype(np.int64)
        return aligned

    def _send(self, value: int, rank: int) -> None:
        dist.send(torch.tensor([value]), rank, self._group)

    def _receive(self, rank: int) -> int:
        value = torch.zeros(1, dtype=torch.int64)
        dist.recv(value, rank, self._group)
        return int(value.item())


def uncertainty_ns(*measurements: Int64) -> int:
    """Return by how much, ns, times of ranks on two machines may be misplaced against each other: the two largest errors together."""
    errors = np.max([offsets[:, 2] for offsets in measurements], axis=0)
    return int(np.sort(errors)[-2:].sum())


_own = RankClock()


def own_clock() -> RankClock:
    """Return the clock of the rank that this process is."""
    return _own


def join(clock: RankClock) -> None:
    """Have this process's rank use a clock, from the moment at which it knows the others."""
    global _own
    _own = clock
