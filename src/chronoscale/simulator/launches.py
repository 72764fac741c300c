"""Launches: when a rank's host, one thread for all streams, has launched the kernels of each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.cuda_ext.scheduling import replay as native
from chronoscale.strategies.costs import launch_overlap_ns
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

AT_ONCE = -(1 << 60)  # ns: of a row that nobody launches


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """Kernel launches of a simulated epoch: when each rank's host, one thread, has launched the kernels of n rows, in g turns.

    A turn is a run of a rank's rows that its host launches one after another. A row starts at the earliest `after_ns` after its turn has
    started; a row without kernels need not wait. A turn starts when the one before is over and its gate has ended. Two things end a turn:
    an iteration (the next one's gate is the optimiser step of the iteration before the last, as a host is at most one iteration ahead of
    its device), and a row of the device that waits for a row of the host: it is issued when that has returned, and nothing else before it.
    Where a row waits for several, the turns between have no rows. All arrays int64.
    """

    turn: Ints  # [n] of each row
    after_ns: Ints  # [n]
    rank: Ints  # [g]
    length_ns: Ints  # [g]
    gate: Ints  # [g] row that ends before the turn starts; -1: none

    @classmethod
    def of(cls, schedule: Schedule, ns: Ints, launch_ns: int | Ints) -> Launches | None:
        """Work out the kernel launches of a schedule for its replay; None where nothing is launched.

        ns: what rows take, int64 [n]; launch_ns: what the host takes to launch one kernel, the same for all rows or int64 [n].
        """
        if not np.any(launch_ns) or not schedule.kernels.any():
            return None
        columns = schedule.rank, schedule.lane, schedule.iteration, schedule.kernels, ns, schedule.hosted, schedule.op == Op.OPTIMIZE
        each = np.ascontiguousarray(np.broadcast_to(np.asarray(launch_ns, np.int64), len(schedule)))
        launched = native.LaunchedRows(*columns, schedule.dep_ptr, schedule.dep, each)
        if (turns := native.host_turns(launched, schedule.ranks, len(Lane))) is not None:
            return cls(*turns[1:])
        return cls.in_numpy(schedule, ns, each)

    @classmethod
    def in_numpy(cls, schedule: Schedule, ns: Ints, launch_ns: Ints) -> Launches:
        """Work out the kernel launches of a schedule in NumPy, for machines without the native library; equal to those of `of`.

        ns: what rows take, int64 [n]; launch_ns: what the host takes to launch one kernel, int64 [n].
        """
        order = np.argsort(schedule.rank, kind="stable")
        rank, iteration = schedule.rank[order].astype(np.int64), schedule.iteration[order].astype(np.int64)
        own = rank * (max(schedule.iterations, 1) + 1)  # rows of an earlier iteration among those of a later one belong to its turn
        key = np.maximum.accumulate(own + np.maximum(iteration, 0))
        begins = np.diff(key, prepend=-1) > 0
        gates = np.stack([np.full(len(order), -1), *_awaited_on_host(schedule, order)])
        gates[0, begins] = _earlier_steps(schedule, order, np.cumsum(begins) - 1, rank[begins])
        turn_begins = np.stack([begins, *(gates[1:] >= 0)])
        first, which = np.nonzero(turn_begins.T)  # where each turn begins, and why
        turn, after = np.empty_like(order), np.empty_like(order)
        turn[order] = at = np.cumsum(turn_begins.sum(0)) - 1
        each = launch_ns[order]
        spent = schedule.kernels[order] * each
        done = np.cumsum(spent)
        before = (done - spent)[first]
        launched = done - before[at] - launch_overlap_ns(schedule.kernels[order], ns[order], each)
        after[order] = np.where(spent > 0, launched, AT_ONCE)
        return cls(turn, after, rank[first], np.diff(before, append=done[-1]), gates[which, first])


def _earlier_steps(schedule: Schedule, order: Ints, number: Ints, rank: Ints) -> Ints:
    """Return the last optimiser step of the iteration before the last of the same rank (a row; -1: none), int64 [iterations of all ranks].

    number: the iteration of each row among those of all ranks, int64 [n], in `order`; rank: of each iteration.
    """
    last, gate = (np.full(len(rank), -1, np.int64) for _ in range(2))
    steps = np.flatnonzero(schedule.op[order] == Op.OPTIMIZE)
    last[number[steps]] = order[steps]
    gate[2:] = np.where(rank[2:] == rank[:-2], last[:-2], -1)
    return gate


def _awaited_on_host(schedule: Schedule, order: Ints) -> list[Ints]:
    """Return rows of the host that a row's launch waits for and that no earlier launch of its rank has waited for; -1: none.

    One array, int64 [n] in `order`, for each lane that has such rows: the last row of that lane. Rows of a lane end in order, so the last
    one stands for all.
    """
    rows, host = np.arange(len(schedule)), schedule.hosted
    waiter, dep = np.repeat(rows, np.diff(schedule.dep_ptr)), schedule.dep
    lane = np.lexsort((rows, schedule.lane, schedule.rank))
    follows = (np.diff(schedule.rank[lane]) == 0) & (np.diff(schedule.lane[lane]) == 0)
    waiter, dep = np.concatenate([waiter, lane[1:][follows]]), np.concatenate([dep, lane[:-1][follows]])
    waits = ~host[waiter] & (schedule.kernels[waiter] > 0) & host[dep] & (schedule.rank[waiter] == schedule.rank[dep])
    rows_by_lane = []
    for number in np.unique(schedule.lane[dep[waits]]):
        chosen = waits & (schedule.lane[dep] == number)
        last = np.full(len(rows), -1, np.int64)
        np.maximum.at(last, waiter[chosen], dep[chosen])
        own = schedule.rank[order].astype(np.int64) * (len(rows) + 1)
        waited_for = np.maximum.accumulate(own + last[order] + 1)
        new = np.diff(waited_for, prepend=-1) > 0
        rows_by_lane.append(np.where(new, last[order], -1))
    return rows_by_lane
