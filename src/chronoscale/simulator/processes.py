"""Processes: a timeline run by SimPy, one process a stream. The reference that the native engine equals to the nanosecond."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import simpy
from numpy.typing import NDArray

from chronoscale.simulator.launches import AT_ONCE
from chronoscale.simulator.sharing.resources import SharedResources
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.timed_event import TimedEvent
from chronoscale.simulator.timeline import Timeline
from chronoscale.strategies.schedule import Ints


def start_times(timeline: Timeline, shares: Shares | None = None, takes: NDArray[np.bool_] | None = None) -> tuple[Ints, Ints]:
    """Simulate in SimPy when each segment (a run of tasks of one stream) starts; the reference of the native engine.

    Returns the start, and the time from which the segment's length counts; both ns, int64 [segments], -1 for those that never start. The
    two differ only for segments that share resources (takes: bool [segments]): one ends its length after the second time, having run slower
    from the first on.

    Each stream is one process. It runs ahead on its own clock as long as the times that it needs are known, and meets the simulation's
    clock only where it has to wait: for a segment that has not started, for the other ranks of a collective, or for the end of what shares
    resources. Other segments are not delayed once they start, so running ahead changes no result; it saves an event a row.
    """
    env = simpy.Environment()
    sharing = None if shares is None else SharedResources(env, shares)
    start, counted_from = [-1] * len(timeline), [-1] * len(timeline)
    shares_resources = [] if takes is None else takes.tolist()
    length = timeline.length_ns.tolist()
    collective, missing = timeline.collective.tolist(), timeline.members.tolist()
    launched = timeline.held_ns > AT_ONCE // 2  # at least one row of the segment
    turn = np.where(launched, timeline.turn, -1).tolist()
    held_ns, leads = timeline.held_ns.tolist(), _leads(timeline)
    wait_ptr, awaited = timeline.wait_ptr.tolist(), timeline.awaited.tolist()
    lag, lag_launched = timeline.lag_ns.tolist(), timeline.lag_launched_ns.tolist()
    latest = [0] * len(missing)
    owner, first_row = ([], []) if sharing is None else (_owners(timeline), timeline.first.tolist())
    started: dict[int, TimedEvent] = {}  # of segments that someone waits for
    complete: dict[int, TimedEvent] = {}  # of collectives that someone waits in

    def run(first: int, last: int) -> Generator[simpy.Event, None, None]:
        """Run the segments first..last-1 of one stream."""
        free, wait = 0, wait_ptr[first]
        for segment in range(first, last):
            begin, stop = free, wait_ptr[segment + 1]
            while wait < stop:
                other = awaited[wait]
                if start[other] < 0:
                    if other not in started:
                        started[other] = TimedEvent(env)
                    yield started[other]
                ready = start[other] + lag[wait]
                if turn[other] >= 0 and (launched_at := start[turn[other]] + lag_launched[wait]) > ready:
                    ready = launched_at
                if ready > begin:
                    begin = ready
                wait += 1
            host = turn[segment]
            if host >= 0:
                if start[host] < 0:
                    if host not in started:
                        started[host] = TimedEvent(env)
                    yield started[host]
                if (ready := start[host] + leads[segment]) > begin:
                    begin = ready
            group = collective[segment]
            if group >= 0:
                missing[group] -= 1
                latest[group] = max(latest[group], begin)
                if missing[group]:
                    if group not in complete:
                        complete[group] = TimedEvent(env)
                    yield complete[group]
                elif group in complete:
                    complete.pop(group).trigger_at(latest[group])
                begin = latest[group]
            if sharing is not None and shares_resources[segment]:
                counted_from[segment] = begin
                yield sharing.end_of(first_row[segment] if group < 0 else owner[group], begin, length[segment])
                begin = env.now - length[segment]
            start[segment] = begin
            free = begin + length[segment]
            if host >= 0 and (launched_at := start[host] + held_ns[segment]) > free:
                free = launched_at
            if segment in started:
                started.pop(segment).trigger_at(begin if sharing is None else max(begin, int(env.now)))  # shared: known at its end

    for first, last in timeline.bounds:
        env.process(run(first, last))
    env.run()
    counts = np.array(start, np.int64)
    if sharing is None:
        return counts, counts
    began = np.array(counted_from, np.int64)
    return np.where(began < 0, counts, began), counts


def _leads(timeline: Timeline) -> list[int]:
    """Return how long each segment starts after its turn at least (ns)."""
    rows = timeline.first >= 0
    leads = np.zeros(len(timeline), np.int64)
    leads[rows] = timeline.launched_ns[timeline.first[rows]]
    leads_ns: list[int] = leads.tolist()
    return leads_ns


def _owners(timeline: Timeline) -> list[int]:
    """Return the first row of each collective."""
    in_collective = timeline.collective >= 0
    owner = np.full(len(timeline.members), np.iinfo(np.int64).max)
    np.minimum.at(owner, timeline.collective[in_collective], timeline.first[in_collective])
    owners: list[int] = owner.tolist()
    return owners
