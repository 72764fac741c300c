"""A replayer that shares nothing with the engine: it looks at every stream's next row over and over."""

from __future__ import annotations

import numpy as np
import pytest
from notation import NsCosts

from chronoscale.errors import UserError
from chronoscale.simulator import engine
from chronoscale.simulator.network import collective_times
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, durations
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.trace import Trace


def oracle(schedule: Schedule, cluster: Cluster, ns: np.ndarray, launch_ns: int = 0) -> tuple[list[int], list[int]] | None:
    """Starts and ends by looking at every stream's next row over and over; None when none can start and some are left.

    A rank's host launches the kernels of its rows in row order, each `launch_ns`, and begins those of a later iteration when the optimiser
    step of the last but one before has ended, and those of a row that waits for the host's own work when that has.
    """
    streams: dict[tuple[int, int], list[int]] = {}
    for i in range(len(schedule)):
        streams.setdefault((int(schedule.rank[i]), cluster.device.stream_of(Lane(schedule.lane[i]))), []).append(i)
    start, end, free = {}, {}, dict.fromkeys(streams, 0)
    hosts = {rank: Host(schedule, rank, launch_ns) for rank in range(schedule.ranks)}
    progress = True
    while progress:
        progress = sum(host.advance(end) for host in hosts.values()) > 0  # all of them, not until one has
        earliest = {row: at for host in hosts.values() for row, at in host.starts(ns).items()}
        ready = {
            rows[0]: (key, max([free[key], earliest[rows[0]], *(end[int(d)] for d in schedule.dependencies(rows[0]))]))
            for key, rows in streams.items()
            if rows and rows[0] in earliest and all(int(d) in end for d in schedule.dependencies(rows[0]))
        }
        for i, (key, begin) in ready.items():
            group = schedule.collective[i]
            members = [i] if group < 0 else np.flatnonzero(schedule.collective == group).tolist()
            if all(member in ready for member in members):
                start[i] = begin if group < 0 else max(ready[member][1] for member in members)
                end[i] = free[key] = start[i] + int(ns[i])
                progress = True
        for rows in streams.values():
            while rows and rows[0] in end:
                rows.pop(0)
    if len(end) < len(schedule):
        return None
    return [start[i] for i in range(len(schedule))], [end[i] for i in range(len(schedule))]


def on_host(schedule: Schedule, row: int) -> bool:
    exchanged = schedule.kind == "spread" and schedule.op[row] in (Op.ALLTOALL, Op.ALLGATHER)
    return bool(schedule.lane[row] == Lane.HOST or schedule.op[row] == Op.FETCH or exchanged)


class Host:
    """One rank's host thread: when it has launched each row's last kernel."""

    def __init__(self, schedule: Schedule, rank: int, launch_ns: int) -> None:
        self.schedule, self.launch_ns, self.now, self.iteration = schedule, launch_ns, 0, -1
        self.waiting = np.flatnonzero(schedule.rank == rank).tolist()
        self.launched: dict[int, int] = {}
        self.steps: list[int | None] = []  # of each turn so far: its last optimiser step

    def advance(self, end: dict[int, int]) -> bool:
        before = len(self.waiting)
        while self.waiting:
            row = self.waiting[0]
            if self.launch_ns and self.schedule.iteration[row] > self.iteration:
                gate = self.steps[-2] if len(self.steps) > 1 else None
                if gate is not None and gate not in end:
                    break
                self.now = max(self.now, end[gate] if gate is not None else 0)
                self.iteration = int(self.schedule.iteration[row])
                self.steps.append(None)
            if any(dep not in end for dep in self.awaited(row)):
                break
            self.now = max([self.now, *(end[dep] for dep in self.awaited(row))])
            self.now += int(self.schedule.kernels[row]) * self.launch_ns
            self.launched[row] = self.now
            if self.launch_ns and self.schedule.op[row] == Op.OPTIMIZE:
                self.steps[-1] = row
            self.waiting.pop(0)
        return len(self.waiting) < before

    def awaited(self, row: int) -> list[int]:
        """Rows of this rank's host that must have returned before the row is launched."""
        same = self.schedule.rank == self.schedule.rank[row]
        if on_host(self.schedule, row) or not self.schedule.kernels[row] * self.launch_ns:
            return []
        before = np.flatnonzero(same & (self.schedule.lane == self.schedule.lane[row]))
        needs = [*self.schedule.dependencies(row).tolist(), *before[before < row][-1:].tolist()]
        return [need for need in needs if same[need] and on_host(self.schedule, need)]

    def starts(self, ns: np.ndarray) -> dict[int, int]:
        """When rows that are launched, or that nobody launches, may start."""
        launched = dict.fromkeys(np.flatnonzero(self.schedule.kernels * self.launch_ns == 0).tolist(), 0)
        for row, done in self.launched.items():
            if count := int(self.schedule.kernels[row]) * bool(self.launch_ns):
                launched[row] = done - (count - 1) * min(int(ns[row]) // count, self.launch_ns)
        return launched


def assert_exact(schedule: Schedule, cluster: Cluster, launch_ns: int = 0) -> Trace | None:
    costs = NsCosts(launch_ns)
    ns, _ = durations(costs, schedule)
    rows, times = collective_times.times(schedule, cluster)
    ns[rows] = times
    expected = oracle(schedule, cluster, ns, launch_ns)
    if expected is None:
        with pytest.raises(UserError, match="deadlocks"):
            replay(schedule, cluster, costs)
        return None
    trace = replay(schedule, cluster, costs)
    assert (trace.start_ns.tolist(), trace.end_ns.tolist()) == expected
    return trace


def replay(schedule: Schedule, cluster: Cluster, costs: CostModel) -> Trace:
    """By SimPy, and by the native engine, which says the same to the nanosecond."""
    trace, other = (engine.replay(schedule, cluster, costs, name) for name in ("simpy", "native"))
    assert np.array_equal(trace.start_ns, other.start_ns) and np.array_equal(trace.end_ns, other.end_ns)
    return trace
