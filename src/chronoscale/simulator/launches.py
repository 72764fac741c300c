"""Launches: when a rank's host, one thread for all streams, has launched the kernels of each row."""

from __future__ import annotations

from dataclasses import dataclass

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
    def of(cls, schedule: Schedule, ns: Ints, launch_ns: int | Ints) -> Launches | None:
        """Of rows `ns` long, int64 [n], whose kernels take the host `launch_ns` each; None where nothing is launched."""
        return None if not np.any(launch_ns) or not schedule.kernels.any() else Turns.of(schedule).launches(schedule, ns, launch_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """What launches have of a schedule alone, whatever its rows take: n rows in g turns, as in `Launches`. All arrays int64."""

    order: Ints  # [n] rows by rank
    begins: Ints  # [g] where each turn begins in that order
    turn: Ints  # [n]
    rank: Ints  # [g]
    gate: Ints  # [g]

    @classmethod
    def of(cls, schedule: Schedule) -> Turns:
        order = np.argsort(schedule.rank, kind="stable")
        rank, iteration = schedule.rank[order].astype(np.int64), schedule.iteration[order].astype(np.int64)
        own = rank * (max(schedule.iterations, 1) + 1)  # rows of an earlier iteration among those of a later one belong to its turn
        fresh = np.diff(np.maximum.accumulate(own + np.maximum(iteration, 0)), prepend=-1) > 0
        begins, turn = np.flatnonzero(fresh), np.empty_like(order)
        turn[order] = np.cumsum(fresh) - 1
        return cls(order, begins, turn, rank[begins], _gates(schedule, turn, rank[begins]))

    def launches(self, schedule: Schedule, ns: Ints, launch_ns: int | Ints) -> Launches:
        """Of rows `ns` long, int64 [n]; launch_ns: of each kernel, or of those of each row, int64 [n]."""
        spent = schedule.kernels * launch_ns
        in_turn = spent[self.order]
        done = np.cumsum(in_turn)
        base, launched = (done - in_turn)[self.begins], np.empty_like(done)
        launched[self.order] = done
        after = launched - base[self.turn] - overlapped(schedule.kernels, ns, launch_ns)
        length = np.add.reduceat(in_turn, self.begins)
        return Launches(self.turn, np.where(spent > 0, after, AT_ONCE), self.rank, length, self.gate)


def _gates(schedule: Schedule, turn: Ints, rank: Ints) -> Ints:
    """The last optimiser's step of the turn before the last of the same rank, int64 [turns]."""
    steps = schedule.tasks(Op.OPTIMIZE)
    last = np.full(len(rank), -1, np.int64)
    last[turn[steps]] = steps
    gate = np.full(len(rank), -1, np.int64)
    gate[2:] = np.where(rank[2:] == rank[:-2], last[:-2], -1)
    return gate
