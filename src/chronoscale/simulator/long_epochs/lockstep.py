"""Lockstep: stretches in which all ranks run the same rows one after another, replayed a row of all ranks at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool
from chronoscale.simulator.launches import AT_ONCE
from chronoscale.simulator.long_epochs.cluster_state import ClusterState
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.costs import launch_overlap_ns
from chronoscale.strategies.schedule import Ints, Op, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Lockstep:
    """Part of a simulated epoch in which all ranks run the same k rows one after another: row i * ranks + r is the i-th of rank r.

    joint: all ranks meet in a collective; step: an optimiser step; begins: an iteration begins. All bool [k].
    """

    joint: Bool
    step: Bool
    begins: Bool

    @classmethod
    def of(cls, schedule: Schedule, device: Device) -> Lockstep | None:
        """Return the common order of rows of a schedule whose ranks run in lockstep, for a faster replay; None where they do not.

        That is where ranks differ, where a row may start before the one before it on its rank has ended, where ranks wait for one another
        otherwise than all together, or where hosts do work of their own.
        """
        ranks, n = schedule.ranks, len(schedule)
        if n % ranks or schedule.hosted.any() or not (schedule.rank.reshape(-1, ranks) == np.arange(ranks)).all():
            return None
        columns = [getattr(schedule, name).reshape(-1, ranks) for name in ("op", "iteration", "collective")]
        if not all((column == column[:, :1]).all() for column in columns):
            return None
        op, iteration, collective = (column[:, 0] for column in columns)
        numbers = collective[collective >= 0]
        waiter = np.repeat(np.arange(n), np.diff(schedule.dep_ptr))
        stream, follows = streams_of(schedule, device), np.zeros(n, bool)
        follows[ranks:] = stream[ranks:] == stream[:-ranks]
        follows[waiter[waiter - schedule.dep == ranks]] = True
        own = (schedule.rank[waiter] == schedule.rank[schedule.dep]).all()
        if not own or not follows[ranks:].all() or len(np.unique(numbers)) < len(numbers) or (np.diff(iteration) < 0).any():
            return None
        return cls(collective >= 0, op == Op.OPTIMIZE, np.diff(iteration, prepend=-1) > 0)

    def replay(self, schedule: Schedule, ns: Ints, launch_ns: int, state: ClusterState) -> tuple[Ints, Ints, ClusterState]:
        """Simulate a stretch (part of a long epoch) of ranks in lockstep, a row of all ranks at a time.

        Returns start and end of rows (ns, int64 [k * ranks]) and the state that it leaves behind. ns: what rows take; launch_ns: what a
        kernel takes the host; state: that the stretch before left.
        """
        ranks, rows = schedule.ranks, len(self.step)
        duration = ns.reshape(rows, ranks)
        spent = (schedule.kernels * launch_ns).reshape(rows, ranks)
        launched_after = np.where(spent > 0, spent - launch_overlap_ns(schedule.kernels, ns, launch_ns).reshape(rows, ranks), AT_ONCE)
        begin, end = np.zeros((rows, ranks), np.int64), np.empty((rows, ranks), np.int64)
        end[0] = state.ended_ns
        free = end[0]
        last_step = step_before = state.ended_ns
        host = state.launched_ns.copy()
        for i in range(1, rows):
            if self.begins[i] and i > 1:
                np.maximum(host, step_before, out=host)
                step_before = last_step
            ready = np.maximum(free, host + launched_after[i], out=begin[i])
            host += spent[i]
            if self.joint[i]:
                ready[:] = ready.max()
            free = np.add(ready, duration[i], out=end[i])
            if self.step[i]:
                last_step = free
        return begin.ravel(), end.ravel(), ClusterState(last_step, np.maximum(host, step_before) if launch_ns else state.launched_ns)
