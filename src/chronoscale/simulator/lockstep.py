"""Lockstep: stretches whose ranks all do the same, one row after another, replayed a row of all ranks at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool
from chronoscale.simulator.launches import AT_ONCE
from chronoscale.simulator.long_epochs.carried import Carried
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.costs import launch_overlap_ns
from chronoscale.strategies.schedule import Ints, Op, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Lockstep:
    """What stretches of one shape have in common; k rows of each rank, of which row i * ranks + r is rank r's i-th.

    joint: all ranks meet; step: the optimiser's; begins: an iteration does. All bool [k].
    """

    joint: Bool
    step: Bool
    begins: Bool

    @classmethod
    def of(cls, schedule: Schedule, device: Device) -> Lockstep | None:
        """None where ranks differ, a row may start before the one before it on its rank has ended, ranks wait for one another but all
        together, or hosts do work of their own."""
        ranks, n = schedule.ranks, len(schedule)
        if n % ranks or schedule.hosted.any() or not (schedule.rank.reshape(-1, ranks) == np.arange(ranks)).all():
            return None
        alike = [getattr(schedule, name).reshape(-1, ranks) for name in ("op", "iteration", "collective")]
        if not all((column == column[:, :1]).all() for column in alike):
            return None
        op, iteration, collective = (column[:, 0] for column in alike)
        numbers = collective[collective >= 0]
        waiter = np.repeat(np.arange(n), np.diff(schedule.dep_ptr))
        stream, follows = streams_of(schedule, device), np.zeros(n, bool)
        follows[ranks:] = stream[ranks:] == stream[:-ranks]
        follows[waiter[waiter - schedule.dep == ranks]] = True
        own = (schedule.rank[waiter] == schedule.rank[schedule.dep]).all()
        if not own or not follows[ranks:].all() or len(np.unique(numbers)) < len(numbers) or (np.diff(iteration) < 0).any():
            return None
        return cls(collective >= 0, op == Op.OPTIMIZE, np.diff(iteration, prepend=-1) > 0)

    def replay(self, schedule: Schedule, ns: Ints, launch_ns: int, carried: Carried) -> tuple[Ints, Ints, Carried]:
        """As `carried.resumed`, of rows `ns` long whose kernels take the host `launch_ns` each: int64 [k * ranks]."""
        ranks, rows = schedule.ranks, len(self.step)
        lasting = ns.reshape(rows, ranks)
        spent = (schedule.kernels * launch_ns).reshape(rows, ranks)
        lead = np.where(spent > 0, spent - launch_overlap_ns(schedule.kernels, ns, launch_ns).reshape(rows, ranks), AT_ONCE)
        begin, end = np.zeros((rows, ranks), np.int64), np.empty((rows, ranks), np.int64)
        end[0] = free = last = before = carried.ended_ns
        host = carried.launched_ns.copy()
        for i in range(1, rows):
            if self.begins[i] and i > 1:
                np.maximum(host, before, out=host)
                before = last
            ready = np.maximum(free, host + lead[i], out=begin[i])
            host += spent[i]
            if self.joint[i]:
                ready[:] = ready.max()
            free = np.add(ready, lasting[i], out=end[i])
            if self.step[i]:
                last = free
        return begin.ravel(), end.ravel(), Carried(last, np.maximum(host, before) if launch_ns else carried.launched_ns)
