"""Engine: replays a schedule on a modelled cluster, by the native library or by SimPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.loader import cpu_library
from chronoscale.cuda_ext.scheduling import replay as native
from chronoscale.errors import UserError
from chronoscale.simulator.deadlock import deadlock_error
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.sharing.uncontended import UncontendedRows
from chronoscale.simulator.timeline import Timeline, streams_of
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Trace

Engine = Literal["native", "simpy"]
LONGEST = 2.0**62  # ns
_CHOSEN: ContextVar[Engine] = ContextVar("engine", default="native")


@contextmanager
def replaying_with(engine: Engine) -> Iterator[None]:
    """Replay by an engine, native or SimPy, whatever is simulated inside this context and names none: epochs, draws, assumptions."""
    token = _CHOSEN.set(engine)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def engine_in_use() -> Engine:
    """Return the engine that replays here where none is named: the chosen one, SimPy where there is no native library."""
    return "simpy" if cpu_library() is None else _CHOSEN.get()


def replay(schedule: Schedule, cluster: Cluster, costs: CostModel, engine: Engine | None = None) -> Trace:
    """Simulate an epoch: replay `schedule` on the first `schedule.ranks` devices of a modelled `cluster` and return the trace.

    Tasks (rows) of a stream run in row order; one starts when its stream is free and its dependencies have ended. Rows of one collective
    start together when the last of them could, and take the time of the network model. On a device whose kernels a host launches (one
    thread for all streams of a rank), no row starts before its launches allow. Rows that run at one time and ask for more of a device or a
    link than it has slow one another down, unless `cluster.contention` is False. Times are whole nanoseconds from 0.

    costs: predicts what each task takes alone. engine: "native", or "simpy", with the same result to the nanosecond; None: the one of
    `replaying_with`, by default native. Without a native library SimPy takes over, with a warning.

    Raises UserError when the cluster has too few devices, when `costs` does not know a row, and when ranks wait for one another in a cycle.
    """
    uncontended = UncontendedRows.of(schedule, cluster, costs)
    start, end = replay_times(
        schedule, cluster.device, uncontended.ns, uncontended.launches(schedule, uncontended.ns), uncontended.shares, engine
    )
    return Trace.of(schedule, start, end, uncontended.source, device_label(cluster, costs))


def device_label(cluster: Cluster, costs: CostModel) -> str:
    """Return the text by which a simulated trace names its device, cluster and cost model."""
    return f"{cluster.device.name} ({cluster.name}), costs: {costs.name}"


def replay_times(
    schedule: Schedule, device: Device, ns: Ints, launches: Launches | None, shares: Shares | None, engine: Engine | None = None
) -> tuple[Ints, Ints]:
    """Simulate when the tasks (rows) of a schedule start and end, in ns, int64 [n] each, from what each takes alone.

    ns: durations while nothing else runs, int64 [n]. launches: of kernels by hosts, None: none. shares: what tasks take of resources that
    others want, too, None where none slows another down. Raises UserError when ranks wait for one another in a cycle, and for times that
    overflow a clock of 64-bit nanoseconds.
    """
    if ns.sum(dtype=np.float64) + (0.0 if launches is None else launches.length_ns.sum(dtype=np.float64)) > LONGEST:
        raise UserError(f"schedule '{schedule.name}': its rows take more than 146 years; see the units of the cluster's figures")
    if (
        (engine or _CHOSEN.get()) == "native"
        and (native_times := _replay_natively(schedule, device, ns, launches, shares)) is not None
        and (native_times[0] >= 0).all()
    ):
        return native_times
    from chronoscale.simulator.processes import start_times  # noqa: PLC0415 (SimPy, which replays where the native library does not)

    sharing = None if shares is None else _sharing_rows(schedule, shares, ns)
    timeline = Timeline.of(schedule, device, ns, launches, sharing)
    segment_starts, counted_from = start_times(
        timeline, shares, None if sharing is None else np.where(timeline.first >= 0, sharing[timeline.first], False)
    )
    if (counted_from < 0).any():
        raise deadlock_error(schedule, timeline, counted_from)
    return timeline.begin(segment_starts), timeline.begin(counted_from) + ns


def _replay_natively(
    schedule: Schedule, device: Device, ns: Ints, launches: Launches | None, shares: Shares | None
) -> tuple[Ints, Ints] | None:
    """Replay in the native library: start and end of rows (ns), negative where a row never starts; None where no library was built."""
    collective, groups = schedule.collective, int(schedule.collective.max(initial=-1)) + 1
    if groups > 2 * len(schedule):
        numbers, index = np.unique(collective, return_inverse=True)
        collective, groups = index - int(numbers[0] < 0), len(numbers)
    streams = streams_of(schedule, device)
    rows = native.ScheduleRows(schedule.ranks * len(device.streams), streams, ns, groups, collective, schedule.dep_ptr, schedule.dep)
    turns = resources = None
    if launches is not None:
        turns = native.HostTurns(schedule.ranks, launches.turn, launches.after_ns, launches.rank, launches.length_ns, launches.gate)
    if shares is not None:
        resources = native.ResourceShares(len(shares.names), shares.delay_ns, shares.demand, shares.ptr, shares.resource, shares.share)
    return native.replay(rows, turns, resources)


def _sharing_rows(schedule: Schedule, shares: Shares, ns: Ints) -> NDArray[np.bool_]:
    """Return which rows share resources with others, bool [n]: all rows of a collective where one of them does."""
    takes = shares.take(ns)
    rows = np.flatnonzero(schedule.collective >= 0)
    _, index = np.unique(schedule.collective[rows], return_inverse=True)
    of_collective = np.zeros(len(rows) and int(index.max()) + 1, bool)
    np.logical_or.at(of_collective, index, takes[rows])
    takes[rows] = of_collective[index]
    return takes
