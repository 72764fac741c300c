"""Engine: a schedule replayed on a modelled cluster, as SimPy processes."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import simpy

from chronoscale.simulator import network
from chronoscale.simulator.deadlock import deadlock
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.timeline import Timeline
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, durations
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Trace


class Moment(simpy.Event):
    """An event whose time can be known before it comes."""

    def at(self, time: int) -> None:
        """Trigger at `time` (ns), not before now."""
        self._ok, self._value = True, None
        self.env.schedule(self, delay=time - self.env.now)


def replay(schedule: Schedule, cluster: Cluster, costs: CostModel) -> Trace:
    """The trace of `schedule` on the first `schedule.ranks` devices of `cluster`.

    Rows of a stream run in row order; a row starts when its stream is free and its dependencies have ended. Rows of one collective
    start together when the last of them could, and take the network model's time. On a device whose kernels a host launches, one thread
    for all streams of a rank, no row starts before its launches allow (`launches`). Times are whole nanoseconds from 0.

    Raises UserError when the cluster has too few devices, when `costs` does not know a row, and when ranks wait for one another in a
    cycle.
    """
    cluster.link(schedule.ranks)  # refuses too few devices
    ns, source = durations(costs, schedule)
    joined, joined_ns = network.times(schedule, cluster)
    ns[joined], source[joined] = joined_ns, network.origin(cluster)
    timeline = Timeline.of(schedule, cluster.device, ns, Launches.of(schedule, ns, costs.launch_ns))
    start = starts(timeline)
    if (start < 0).any():
        raise deadlock(schedule, timeline, start)
    begin = timeline.begin(start)
    device = f"{cluster.device.name} ({cluster.name}), costs: {costs.name}"
    return Trace.of(schedule, begin, begin + ns, source, device)


def starts(timeline: Timeline) -> Ints:
    """When each segment starts (ns), int64 [segments]; -1 for those that never do.

    One process a stream. It runs ahead on its own clock for as long as the times that it needs are known, and meets the simulation's
    clock only where it has to wait: for a segment that has not started, or for the other ranks of a collective. Segments are not
    delayed once they start, so running ahead changes no result; it saves an event a row.
    """
    env = simpy.Environment()
    start = [-1] * len(timeline)
    length, collective, missing = timeline.length_ns.tolist(), timeline.collective.tolist(), timeline.members.tolist()
    turn, held, leads = timeline.turn.tolist(), timeline.held_ns.tolist(), _leads(timeline)
    wait_ptr, awaited, lag = timeline.wait_ptr.tolist(), timeline.awaited.tolist(), timeline.lag_ns.tolist()
    lag_launched = timeline.lag_launched_ns.tolist()
    latest = [0] * len(missing)
    started: dict[int, Moment] = {}  # of segments that someone waits for
    complete: dict[int, Moment] = {}  # of collectives that someone waits in

    def run(first: int, last: int) -> Generator[simpy.Event, None, None]:
        free, wait = 0, wait_ptr[first]
        for segment in range(first, last):
            begin, stop = free, wait_ptr[segment + 1]
            while wait < stop:
                other = awaited[wait]
                if start[other] < 0:
                    if other not in started:
                        started[other] = Moment(env)
                    yield started[other]
                ready = start[other] + lag[wait]
                if turn[other] >= 0:
                    ready = max(ready, start[turn[other]] + lag_launched[wait])
                if ready > begin:
                    begin = ready
                wait += 1
            host = turn[segment]
            if host >= 0:
                if start[host] < 0:
                    if host not in started:
                        started[host] = Moment(env)
                    yield started[host]
                begin = max(begin, start[host] + leads[segment])
            group = collective[segment]
            if group >= 0:
                missing[group] -= 1
                latest[group] = max(latest[group], begin)
                if missing[group]:
                    if group not in complete:
                        complete[group] = Moment(env)
                    yield complete[group]
                elif group in complete:
                    complete.pop(group).at(latest[group])
                begin = latest[group]
            start[segment] = begin
            free = begin + length[segment]
            if host >= 0:
                free = max(free, start[host] + held[segment])
            if segment in started:
                started.pop(segment).at(begin)

    for first, last in timeline.bounds:
        env.process(run(first, last))
    env.run()
    return np.array(start, np.int64)


def _leads(timeline: Timeline) -> list[int]:
    """How long after its turn's start a segment starts, at least; ns a segment."""
    rows = timeline.first >= 0
    leads = np.zeros(len(timeline), np.int64)
    leads[rows] = timeline.launched_ns[timeline.first[rows]]
    found: list[int] = leads.tolist()
    return found
