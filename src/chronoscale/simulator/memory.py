"""Memory: what each rank's device holds at most at a time, and what the ranks of a machine hold on its host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """Peak device memory of each rank in a simulated epoch, bytes, int64 [ranks].

    row: the task whose allocation reached the peak, int64 [ranks] (-1: only `resident` data).
    """

    bytes: Ints
    row: Ints


def find_peaks(schedule: Schedule, trace: Trace) -> Peaks:
    """Find the peak device memory of every rank in a simulated epoch, and the task that reaches it.

    A rank holds `resident` bytes throughout, and a task's `alloc` from its start until a task that has `free` ends.
    """
    peak, at = np.full(schedule.ranks, schedule.resident, np.int64), np.full(schedule.ranks, -1, np.int64)
    allocating, freeing = np.flatnonzero(schedule.alloc[trace.task]), np.flatnonzero(schedule.free[trace.task])
    entry = np.concatenate([allocating, freeing])  # a row of the trace, and what it changes on its rank
    change = np.concatenate([schedule.alloc[trace.task[allocating]], -schedule.free[trace.task[freeing]]])
    if not len(allocating):
        return Peaks(peak, at)
    ends = np.arange(len(entry)) >= len(allocating)
    time = np.where(ends, trace.end_ns[entry], trace.start_ns[entry])
    # At one instant, what earlier rows return is there for those that start; a row without duration takes before it returns.
    later = ~ends | (trace.start_ns[entry] == time)
    order = np.lexsort((ends, entry, later, time, trace.rank[entry]))
    rank = trace.rank[entry[order]]
    total = np.cumsum(change[order])
    begin = np.flatnonzero(np.diff(rank, prepend=-1))
    total -= np.repeat((total - change[order])[begin], np.diff(begin, append=len(rank)))
    for first, last in zip(begin, [*begin[1:], len(rank)], strict=True):
        top = first + int(np.argmax(total[first:last]))
        if total[top] > 0:
            peak[rank[first]] += total[top]
            at[rank[first]] = trace.task[entry[order[top]]]
    return Peaks(peak, at)


def peaks(schedule: Schedule, trace: Trace) -> Ints:
    """Return the peak device memory of each rank in a simulated epoch, bytes, int64 [ranks]."""
    return find_peaks(schedule, trace).bytes


def check(schedule: Schedule, trace: Trace, cluster: Cluster) -> None:
    """Check that a simulated epoch fits in the memory of all devices and hosts of the cluster.

    Raises UserError for the rank that needs most, with where and by how much, and when the ranks of a machine together need more than its
    host has. A device that is the host itself holds both.
    """
    peak = find_peaks(schedule, trace)
    rank = int(np.argmax(peak.bytes))
    row = int(peak.row[rank])
    place = None if row < 0 else TaskPlace(row, int(schedule.op[row]), int(schedule.unit[row]), int(schedule.iteration[row]))
    check_rank(schedule, cluster, rank, int(peak.bytes[rank]), place)


class TaskPlace(NamedTuple):
    """Position of a task in a simulated epoch: its row, operation, group or batch (`unit`) and iteration."""

    task: int
    op: int
    unit: int
    iteration: int


def check_rank(schedule: Schedule, cluster: Cluster, rank: int, peak: int, place: TaskPlace | None) -> None:
    """Check that the rank of a simulated epoch that holds most fits in its device and host: `peak` bytes when the task at `place` starts.

    schedule: the epoch's, or that of a part of it. place: None: throughout. Raises UserError where its device or its host has less.
    """
    _check_host(schedule, cluster)
    beside = schedule.host if cluster.device.on_host else 0
    need, have = float(peak) + beside, cluster.device.memory
    if need <= have:
        return
    where = "for resident data"
    if place is not None:
        where = f"at task {place.task} ({Op(place.op).name}, unit {place.unit}, iteration {place.iteration})"
    if schedule.cached and need - schedule.cached <= have:
        where += f", {_size(schedule.cached)} of it for features (training.cache_ratio)"
    if beside:
        where += f", {_size(beside)} of it for data on the host"
    more = f"{_size(need - have)} more than the {_size(have)} of {cluster.device.name}"
    raise UserError(f"out of memory: rank {rank} needs {_size(need)} {where}, {more}")


def _check_host(schedule: Schedule, cluster: Cluster) -> None:
    """Check that the ranks of the fullest machine fit in its host's memory. Raises UserError."""
    ranks = min(schedule.ranks, cluster.gpus_per_node)  # of the fullest machine
    need, have = float(schedule.host * ranks), cluster.host_memory
    if need > have:
        each = f"{ranks} ranks of {_size(schedule.host)} each" if ranks > 1 else "one rank"
        more = f"{_size(need - have)} more than the {_size(have)} of a node of {cluster.name}"
        raise UserError(f"out of host memory: {each} need{'s' * (ranks == 1)} {_size(need)}, {more}")


def _size(count: float) -> str:
    """Return bytes in words."""
    scale, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s / 10), (1.0, "bytes"))
    return f"{count / scale:.1f} {unit}"
