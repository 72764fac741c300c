"""Engine: a schedule replayed on a modelled cluster."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.scheduling import replay as native
from chronoscale.errors import UserError
from chronoscale.simulator.deadlock import deadlock
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.processes import starts
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.sharing.uncontended import Alone
from chronoscale.simulator.timeline import Timeline, streams_of
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Trace

Engine = Literal["native", "simpy"]
LONGEST = 2.0**62  # ns


def replay(schedule: Schedule, cluster: Cluster, costs: CostModel, engine: Engine = "native") -> Trace:
    """The trace of `schedule` on the first `schedule.ranks` devices of `cluster`.

    Rows of a stream run in row order; a row starts when its stream is free and its dependencies have ended. Rows of one collective
    start together when the last of them could, and take the network model's time. On a device whose kernels a host launches, one thread
    for all streams of a rank, no row starts before its launches allow (`launches`). Rows that run side by side and ask for more of a
    device or a link than there is slow one another down (`contention`), unless the cluster says otherwise. Times are whole nanoseconds
    from 0.

    engine: "native", or SimPy's processes, which mean the same to the nanosecond; where no native library was built SimPy takes over, with
    a warning.

    Raises UserError when the cluster has too few devices, when `costs` does not know a row, and when ranks wait for one another in a
    cycle.
    """
    alone = Alone.of(schedule, cluster, costs)
    begin, end = times(schedule, cluster.device, alone.ns, alone.launches(schedule, alone.ns), alone.shares, engine)
    return Trace.of(schedule, begin, end, alone.source, place(cluster, costs))


def place(cluster: Cluster, costs: CostModel) -> str:
    """What a trace says of where it was replayed."""
    return f"{cluster.device.name} ({cluster.name}), costs: {costs.name}"


def times(
    schedule: Schedule, device: Device, ns: Ints, launches: Launches | None, shares: Shares | None, engine: Engine = "native"
) -> tuple[Ints, Ints]:
    """Start and end (ns) of rows that take `ns` alone, int64 [n] each. Raises UserError when ranks wait for one another in a cycle, and for
    times that a clock of nanoseconds does not hold."""
    if ns.sum(dtype=np.float64) + (0.0 if launches is None else launches.length_ns.sum(dtype=np.float64)) > LONGEST:
        raise UserError(f"schedule '{schedule.name}': its rows take more than 146 years; see the units of the cluster's figures")
    if engine == "native" and (found := _native(schedule, device, ns, launches, shares)) is not None and (found[0] >= 0).all():
        return found
    takes = None if shares is None else _taking(schedule, shares, ns)
    timeline = Timeline.of(schedule, device, ns, launches, takes)
    begun, start = starts(timeline, shares, None if takes is None else np.where(timeline.first >= 0, takes[timeline.first], False))
    if (start < 0).any():
        raise deadlock(schedule, timeline, start)
    return timeline.begin(begun), timeline.begin(start) + ns


def _native(schedule: Schedule, device: Device, ns: Ints, launches: Launches | None, shares: Shares | None) -> tuple[Ints, Ints] | None:
    collective, groups = schedule.collective, int(schedule.collective.max(initial=-1)) + 1
    if groups > 2 * len(schedule):
        numbers, index = np.unique(collective, return_inverse=True)
        collective, groups = index - int(numbers[0] < 0), len(numbers)
    streams = streams_of(schedule, device)
    rows = native.ScheduleRows(schedule.ranks * len(device.streams), streams, ns, groups, collective, schedule.dep_ptr, schedule.dep)
    turns = taken = None
    if launches is not None:
        turns = native.HostTurns(schedule.ranks, launches.turn, launches.after_ns, launches.rank, launches.length_ns, launches.gate)
    if shares is not None:
        columns = shares.delay_ns, shares.demand, shares.ptr, shares.resource, shares.share, shares.crowd
        taken = native.ResourceShares(len(shares.names), *columns)
    return native.replay(rows, turns, taken)


def _taking(schedule: Schedule, shares: Shares, ns: Ints) -> NDArray[np.bool_]:
    """Which rows share resources, all of a collective as its first: bool [n]."""
    takes = shares.take(ns)
    rows = np.flatnonzero(schedule.collective >= 0)
    _, index = np.unique(schedule.collective[rows], return_inverse=True)
    any_ = np.zeros(len(rows) and int(index.max()) + 1, bool)
    np.logical_or.at(any_, index, takes[rows])
    takes[rows] = any_[index]
    return takes
