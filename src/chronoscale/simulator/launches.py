"""Launches: when a rank's host, one thread for all streams, has launched the kernels of each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.costs import overlapped
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

AT_ONCE = -(1 << 60)  # ns: of a row that nobody launches


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """n rows in g turns; a turn is a run of a rank's rows, in row order. All arrays int64.

    A row starts `after_ns` at the earliest, counted from the start of its turn; one without kernels when it likes. A turn starts when the
    one before is over and its gate has ended. Two things end a turn: an iteration (the next one's gate is the optimiser's step of the
    iteration before the last: the host is at most one iteration ahead of the device), and a row of the device that waits for one of the
    host, which is issued when that has returned, and nothing else before it (`real_exec.device_lanes`). Where a row waits for several, the
    turns between have no rows.
    """

    turn: Ints  # [n] of each row
    after_ns: Ints  # [n]
    rank: Ints  # [g]
    length_ns: Ints  # [g]
    gate: Ints  # [g] row that ends before the turn starts; -1: none

    @classmethod
    def of(cls, schedule: Schedule, ns: Ints, launch_ns: int | Ints) -> Launches | None:
        """Of rows `ns` long, int64 [n], whose kernels take the host `launch_ns` each; None where nothing is launched."""
        return None if not np.any(launch_ns) or not schedule.kernels.any() else Turns.of(schedule).launches(schedule, ns, launch_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """What launches have of a schedule alone, whatever its rows take: n rows in g turns, as in `Launches`. All arrays int64."""

    order: Ints  # [n] rows by rank
    first: Ints  # [g] where each turn begins in that order
    turn: Ints  # [n]
    rank: Ints  # [g]
    gate: Ints  # [g]

    @classmethod
    def of(cls, schedule: Schedule) -> Turns:
        order = np.argsort(schedule.rank, kind="stable")
        rank, iteration = schedule.rank[order].astype(np.int64), schedule.iteration[order].astype(np.int64)
        own = rank * (max(schedule.iterations, 1) + 1)  # rows of an earlier iteration among those of a later one belong to its turn
        key = np.maximum.accumulate(own + np.maximum(iteration, 0))
        begins = np.diff(key, prepend=-1) > 0
        gates = np.stack([np.full(len(order), -1), *_held(schedule, order)])
        gates[0, begins] = _steps(schedule, order, np.cumsum(begins) - 1, rank[begins])
        there = np.stack([begins, *(gates[1:] >= 0)])
        first, which = np.nonzero(there.T)  # where each turn begins, and why
        turn = np.empty_like(order)
        turn[order] = np.cumsum(there.sum(0)) - 1
        return cls(order, first, turn, rank[first], gates[which, first])

    def launches(self, schedule: Schedule, ns: Ints, launch_ns: int | Ints) -> Launches:
        """Of rows `ns` long, int64 [n]; launch_ns: of each kernel, or of those of each row, int64 [n]."""
        spent = schedule.kernels * launch_ns
        in_turn = spent[self.order]
        done = np.cumsum(in_turn)
        before, launched = (done - in_turn)[self.first], np.empty_like(done)
        launched[self.order] = done
        after = launched - before[self.turn] - overlapped(schedule.kernels, ns, launch_ns)
        length = np.diff(before, append=done[-1])
        return Launches(self.turn, np.where(spent > 0, after, AT_ONCE), self.rank, length, self.gate)


def _steps(schedule: Schedule, order: Ints, number: Ints, rank: Ints) -> Ints:
    """The last optimiser's step of the iteration before the last of the same rank, int64 [iterations of all ranks]. `number` int64 [n]: of
    each row's, in `order`."""
    last, gate = (np.full(len(rank), -1, np.int64) for _ in range(2))
    steps = np.flatnonzero(schedule.op[order] == Op.OPTIMIZE)
    last[number[steps]] = order[steps]
    gate[2:] = np.where(rank[2:] == rank[:-2], last[:-2], -1)
    return gate


def on_host(schedule: Schedule) -> NDArray[np.bool_]:
    """Rows whose work the host itself does, in whatever lane, bool [n]."""
    found: NDArray[np.bool_] = (schedule.lane == Lane.HOST) | (schedule.op == Op.FETCH)
    return found


def _held(schedule: Schedule, order: Ints) -> list[Ints]:
    """Rows of the host that a row's launch waits for and no launch of its rank has waited for before: the last one of each lane that has
    any, int64 [n] each, in `order`; -1: none. Rows of a lane end in order, so the last one tells of all."""
    here, host = np.arange(len(schedule)), on_host(schedule)
    waiter, dep = np.repeat(here, np.diff(schedule.dep_ptr)), schedule.dep
    lane = np.lexsort((here, schedule.lane, schedule.rank))
    follows = (np.diff(schedule.rank[lane]) == 0) & (np.diff(schedule.lane[lane]) == 0)
    waiter, dep = np.concatenate([waiter, lane[1:][follows]]), np.concatenate([dep, lane[:-1][follows]])
    waits = ~host[waiter] & (schedule.kernels[waiter] > 0) & host[dep] & (schedule.rank[waiter] == schedule.rank[dep])
    found = []
    for number in np.unique(schedule.lane[dep[waits]]):
        chosen = waits & (schedule.lane[dep] == number)
        last = np.full(len(here), -1, np.int64)
        np.maximum.at(last, waiter[chosen], dep[chosen])
        own = schedule.rank[order].astype(np.int64) * (len(here) + 1)
        known = np.maximum.accumulate(own + last[order] + 1)
        new = np.diff(known, prepend=-1) > 0
        found.append(np.where(new, last[order], -1))
    return found
