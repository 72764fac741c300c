"""Snapshot groups: which group runs on which rank, in which iteration, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Ints, Op, Schedule

CAPACITY = 2  # groups a GPU and iteration (REAL §5.1)


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Rank and iteration of every snapshot group in a plan of PSG, BLAD or REAL, and its slot there: int64 [groups] each. Slot 0 runs
    before slot 1 of the same rank and iteration.

    Raises ValueError unless every rank runs at most two groups an iteration, slot 0 first (REAL eq. 11-12).
    """

    ranks: int
    rank: Ints
    iteration: Ints
    slot: Ints

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise UserError(f"at least one GPU is needed, got {self.ranks}")
        if len(self.rank) == 0:
            return
        if self.rank.min() < 0 or self.rank.max() >= self.ranks or self.iteration.min() < 0:
            raise ValueError("placement: rank or iteration out of range")
        if self.slot.min() < 0 or self.slot.max() >= CAPACITY:
            raise ValueError(f"placement: more than {CAPACITY} groups on one rank and iteration")
        seats = self.site * CAPACITY + self.slot
        if len(np.unique(seats)) != len(seats):
            raise ValueError("placement: two groups share one rank, iteration and slot")
        if not np.isin(self.site[self.slot == 1], self.site[self.slot == 0]).all():
            raise ValueError("placement: slot 1 is filled where slot 0 is empty")

    @property
    def site(self) -> Ints:
        """The rank and iteration of each snapshot group as one number, iteration * ranks + rank; int64 [groups]."""
        return self.iteration * self.ranks + self.rank

    @property
    def iterations(self) -> int:
        """The number of iterations (optimiser steps) of the plan."""
        return int(self.iteration.max()) + 1 if len(self.iteration) else 0

    def first(self) -> Ints:
        """Return for every snapshot group the one that runs first on its rank in its iteration; int64 [groups]."""
        lead = np.flatnonzero(self.slot == 0)
        order = lead[np.argsort(self.site[lead])]
        return order[np.searchsorted(self.site[order], self.site)]

    def previous(self) -> Ints:
        """Return for every snapshot group the one that its rank runs before it, -1 for the first; int64 [groups]."""
        order = np.lexsort((self.slot, self.iteration, self.rank))
        before = np.full(len(order), -1, np.int64)
        same = self.rank[order][1:] == self.rank[order][:-1]
        before[order[1:][same]] = order[:-1][same]
        return before

    def in_time_order(self) -> Placement:
        """Return the placement with the earlier group of each pair first, so that the later one can reuse its snapshots."""
        lead = self.first()
        swap = np.zeros(len(self.slot), bool)
        second = np.flatnonzero(self.slot == 1)
        late = second[lead[second] > second]
        swap[late] = True
        swap[lead[late]] = True
        return Placement(self.ranks, self.rank, self.iteration, np.where(swap, 1 - self.slot, self.slot))


def deal(groups: int, ranks: int, each: int = 1) -> Placement:
    """Place snapshot groups on ranks in time order, `each` consecutive ones on a rank, ranks in turn: the placement of PSG and BLAD (REAL
    §7.3). Raises UserError for 0 ranks."""
    if ranks < 1:
        raise UserError(f"at least one GPU is needed, got {ranks}")
    unit = np.arange(groups)
    return Placement(ranks, unit // each % ranks, unit // (each * ranks), unit % each)


def groups_of(schedule: Schedule) -> dict[int, int]:
    """Return, for each iteration of a schedule, how many snapshot groups it trains over all ranks, as its loss is their mean."""
    rows = schedule.tasks(Op.BACKWARD)
    pairs = np.unique(np.stack([schedule.iteration[rows], schedule.unit[rows]]), axis=1)
    iterations, counts = np.unique(pairs[0], return_counts=True)
    return dict(zip(iterations.tolist(), counts.tolist(), strict=True))
