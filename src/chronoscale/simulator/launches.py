"""Launches: when a rank's host, one thread for all streams, has launched the kernels of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.strategies.costs import overlapped
from chronoscale.strategies.schedule import Ints, Op, Schedule

AT_ONCE = -(1 << 60)  # ns: of a row that nobody launches


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """n rows in g turns; a turn is a rank's rows of one iteration, in row order. All arrays int64.

    A row starts `after_ns` at the earliest, counted from the start of its turn; one without kernels when it likes. A turn starts when the
    one before is over, and when the optimiser's step of the iteration before the last has ended: the host is at most one iteration ahead
    of the device.
    """

    turn: Ints  # [n] of each row
    after_ns: Ints  # [n]
    rank: Ints  # [g]
    length_ns: Ints  # [g]
    gate: Ints  # [g] row that ends before the turn starts; -1: none

    @classmethod
    def of(cls, schedule: Schedule, ns: Ints, launch_ns: int) -> Launches | None:
        """Of rows `ns` long, int64 [n], whose kernels take the host `launch_ns` each; None where nothing is launched."""
        if not launch_ns or not schedule.kernels.any():
            return None
        order = np.argsort(schedule.rank, kind="stable")
        rank, iteration = schedule.rank[order].astype(np.int64), schedule.iteration[order].astype(np.int64)
        own = rank * (max(schedule.iterations, 1) + 1)  # rows of an earlier iteration among those of a later one belong to its turn
        key = np.maximum.accumulate(own + np.maximum(iteration, 0))
        begins = np.flatnonzero(np.diff(key, prepend=-1))
        spent = schedule.kernels[order] * launch_ns
        done = np.cumsum(spent)
        turn, after = np.empty_like(order), np.empty_like(order)
        turn[order] = np.cumsum(np.diff(key, prepend=-1) > 0) - 1
        base = (done - spent)[begins]
        launched = done - base[turn[order]] - overlapped(schedule.kernels[order], ns[order], launch_ns)
        after[order] = np.where(spent > 0, launched, AT_ONCE)
        length = np.add.reduceat(spent, begins)
        return cls(turn, after, rank[begins], length, _gates(schedule, turn, rank[begins]))

    def moved(self, schedule: Schedule, before: Ints, ns: Ints, launch_ns: int) -> Launches:
        """The same of rows that take `ns` where they took `before`, int64 [n] each: only how far a row runs beside its own launches
        differs, which is all of `of` that depends on what rows take."""
        change = overlapped(schedule.kernels, before, launch_ns) - overlapped(schedule.kernels, ns, launch_ns)
        return replace(self, after_ns=self.after_ns + change)


def _gates(schedule: Schedule, turn: Ints, rank: Ints) -> Ints:
    """The last optimiser's step of the turn before the last of the same rank, int64 [turns]."""
    steps = schedule.tasks(Op.OPTIMIZE)
    last = np.full(len(rank), -1, np.int64)
    last[turn[steps]] = steps
    gate = np.full(len(rank), -1, np.int64)
    gate[2:] = np.where(rank[2:] == rank[:-2], last[:-2], -1)
    return gate
