"""A replayer that shares nothing with the engine: it looks at every stream's next row over and over."""

from __future__ import annotations

import numpy as np
import pytest
from notation import NsCosts

from chronoscale.errors import UserError
from chronoscale.simulator import network
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import durations
from chronoscale.strategies.schedule import Lane, Schedule
from chronoscale.strategies.trace import Trace


def oracle(schedule: Schedule, cluster: Cluster, ns: np.ndarray) -> tuple[list[int], list[int]] | None:
    """Starts and ends by looking at every stream's next row over and over; None when none can start and some are left."""
    streams: dict[tuple[int, int], list[int]] = {}
    for i in range(len(schedule)):
        streams.setdefault((int(schedule.rank[i]), cluster.device.stream_of(Lane(schedule.lane[i]))), []).append(i)
    start, end, free = {}, {}, dict.fromkeys(streams, 0)
    progress = True
    while progress:
        progress = False
        ready = {
            rows[0]: (key, max([free[key], *(end[int(d)] for d in schedule.dependencies(rows[0]))]))
            for key, rows in streams.items()
            if rows and all(int(d) in end for d in schedule.dependencies(rows[0]))
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


def assert_exact(schedule: Schedule, cluster: Cluster) -> Trace | None:
    ns, _ = durations(NsCosts(), schedule)
    rows, times = network.times(schedule, cluster)
    ns[rows] = times
    expected = oracle(schedule, cluster, ns)
    if expected is None:
        with pytest.raises(UserError, match="deadlocks"):
            replay(schedule, cluster, NsCosts())
        return None
    trace = replay(schedule, cluster, NsCosts())
    assert (trace.start_ns.tolist(), trace.end_ns.tolist()) == expected
    return trace
