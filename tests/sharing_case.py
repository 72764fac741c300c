"""Rows that share resources, written as entries, and their replay by both engines."""

from __future__ import annotations

import numpy as np
from notation import NsCosts, gpus

from chronoscale.simulator import engine
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.costs import durations
from chronoscale.strategies.schedule import Schedule

Entries = list[tuple[int, int, float]]  # row, resource, share


def shares(
    schedule: Schedule, entries: Entries, delay: dict[int, int] | None = None, streams=None, demand: dict[int, float] | None = None
) -> Shares | None:
    """By row, what it delays and demands; its largest share where it is not said."""
    device = gpus(schedule.ranks, streams=streams).device
    row, resource, share = (np.array(column) for column in zip(*entries, strict=True)) if entries else (np.zeros(0, np.int64),) * 3
    late, demands = np.zeros(len(schedule), np.int64), np.zeros(len(schedule))
    np.maximum.at(demands, row, share)
    for one, ns in (delay or {}).items():
        late[one] = ns
    for one, much in (demand or {}).items():
        demands[one] = much
    names = tuple(f"resource {i}" for i in range(int(resource.max(initial=-1)) + 1))
    return Shares.of(row, resource.astype(np.int32), share.astype(float), late, demands, streams_of(schedule, device), names)


def run(schedule: Schedule, taken: Shares | None, streams=None, launch_ns: int = 0) -> list[tuple[int, int]]:
    """Start and end of each row, the same by both engines."""
    cluster = gpus(schedule.ranks, streams=streams)
    ns, _ = durations(NsCosts(launch_ns), schedule)
    rows, joined = collective_times.times(schedule, cluster)
    ns[rows] = joined
    launches = Launches.of(schedule, ns, launch_ns)
    start, end = engine.replay_times(schedule, cluster.device, ns, launches, taken)
    again, ended = engine.replay_times(schedule, cluster.device, ns, launches, taken, "simpy")
    assert (start.tolist(), end.tolist()) == (again.tolist(), ended.tolist())
    return list(zip(start.tolist(), end.tolist(), strict=True))


def ended(schedule: Schedule, taken: Shares | None) -> list[int]:
    """End of each row (ns)."""
    return [end for _, end in run(schedule, taken)]
