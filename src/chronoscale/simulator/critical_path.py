"""Critical path: the chain of tasks that an epoch takes as long as, each started by the end of the one before it, and its make-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network.traffic import LinkTraffic, slowest_links
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule
from chronoscale.strategies.trace import Trace

HOST = -1  # of a step: a rank's host launches kernels, no row runs


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """Critical path of a simulated or measured epoch: k steps in order of time, each started by the end of the one before; arrays [k].

    A step is a task (row of the schedule), or a time in which a rank's host launches kernels. In a replay steps follow one another without
    a gap from the epoch's start to its end; in a measured trace something that no row records may lie between two.
    """

    row: Ints  # HOST where kernels are launched
    rank: Int32
    start_ns: Ints
    end_ns: Ints

    @property
    def duration_ns(self) -> Ints:
        return self.end_ns - self.start_ns

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class PathShare:
    """Share (of 1) of an epoch that its critical path spends in one operation of one stream.

    op, lane: names of both, '' where a host launches kernels. link: where a collective's bytes take longest: "on NICs" and the like, or
    "inside a node" or "between nodes" where no links are modelled; '' for what is no collective.
    """

    op: str
    lane: str
    link: str
    share: float


def critical_path(schedule: Schedule, trace: Trace, device: Device, launches: Launches | None = None) -> CriticalPath:
    """Return the critical path of a trace, walked back from the last end through whatever made each task start when it did.

    That is the task before it in its stream, the dependency that ended last, or its host's launches; for a collective, the same of the
    member that arrived last. Of several that ended at one time the stream counts first.

    launches: the kernel launches that the trace was simulated with. Raises ValueError for a trace that lacks rows of `schedule`.
    """
    if len(trace) != len(schedule):
        raise ValueError(f"critical path: the trace of '{trace.strategy}' has {len(trace)} of {len(schedule)} rows")
    if not len(schedule):
        empty = np.zeros(0, np.int64)
        return CriticalPath(empty, np.zeros(0, np.int32), empty, empty)
    rows, end = len(schedule), trace.end_ns
    awaited, ready = _last_awaited(schedule, device, end)
    turn_rank = np.zeros(0, np.int64) if launches is None else launches.rank
    turn_start, turn_awaited = turn_rank, turn_rank
    if launches is not None:
        turn_start, turn_awaited = _turn_starts(launches, end)
        launched = turn_start[launches.turn] + launches.after_ns
        by_host = launched > ready
        awaited[by_host], ready[by_host] = rows + launches.turn[by_host], launched[by_host]
    _join_collectives(schedule, awaited, ready)

    predecessor = [*awaited.tolist(), *turn_awaited.tolist()]
    path_back = [int(np.argmax(end))]
    while (node := predecessor[path_back[-1]]) >= 0:
        path_back.append(node)
    node_start = np.concatenate([trace.start_ns, turn_start])
    path = np.array(path_back[::-1], np.int64)
    of_row = path < rows
    start = np.maximum(node_start[path], trace.start_ns.min())
    stop = np.append(start[1:], end[path[-1]])
    row = np.where(of_row, path, HOST)
    rank = np.concatenate([schedule.rank, turn_rank])[path].astype(np.int32)
    return CriticalPath(row, rank, start, np.where(of_row, end[row], stop))


def _last_awaited(schedule: Schedule, device: Device, end: Ints) -> tuple[Ints, Ints]:
    """Return the row whose end each row waits for last, the one before it in its stream or a dependency (-1: none), and that end (ns);
    int64 [rows] each.
    """
    stream = streams_of(schedule, device)
    order = np.argsort(stream, kind="stable")
    awaited = np.full(len(schedule), -1, np.int64)
    same_stream = np.diff(stream[order]) == 0
    awaited[order[1:][same_stream]] = order[:-1][same_stream]
    ready = np.where(awaited >= 0, end[awaited], 0)
    waiter = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
    latest = np.lexsort((end[schedule.dep], waiter))
    latest = latest[np.flatnonzero(np.diff(waiter, append=-1))]  # waiters ascend: the last of each ends last
    row, dep = waiter[latest], schedule.dep[latest]
    later = end[dep] > ready[row]
    awaited[row[later]], ready[row[later]] = dep[later], end[dep[later]]
    return awaited, ready


def _turn_starts(launches: Launches, end: Ints) -> tuple[Ints, Ints]:
    """Return when each turn of a host starts (ns) and what it waited for; int64 [turns] each.

    A turn starts when the one before is over and its gate has ended. What it waited for is a row, or the number of rows plus that of the
    turn before; -1: nothing.
    """
    count, gated = len(launches.rank), launches.gate >= 0
    first = np.diff(launches.rank, prepend=-1) != 0
    done = np.cumsum(launches.length_ns) - launches.length_ns
    floor = np.where(gated, end[launches.gate], np.where(first, 0, np.iinfo(np.int64).min // 2))
    start = pd.Series(floor - done).groupby(launches.rank).cummax().to_numpy() + done
    before = np.where(first, -1, len(end) + np.arange(count) - 1)
    return start, np.where(gated & (start == end[launches.gate]), launches.gate, before)


def _join_collectives(schedule: Schedule, awaited: Ints, ready: Ints) -> None:
    """Let every row of a collective wait for what its last member waits for, in place."""
    rows = np.flatnonzero(schedule.collective >= 0)
    rows = rows[np.lexsort((ready[rows], schedule.collective[rows]))]
    ends = np.flatnonzero(np.diff(schedule.collective[rows], append=-1))
    last = np.repeat(rows[ends], np.diff(ends, prepend=-1))
    awaited[rows] = awaited[last]


def path_shares(
    path: CriticalPath, schedule: Schedule, trace: Trace, cluster: Cluster, traffic: LinkTraffic | None = None
) -> tuple[PathShare, ...]:
    """Return what share of an epoch its critical path spends in each operation and in launching kernels, the largest first.

    Nothing for an epoch of no length. Shares of a simulated epoch add up to 1. traffic: bytes on links by the rows of `schedule`, where
    links are modelled.
    """
    if not trace.span_ns:
        return ()
    place, places = _places(schedule, cluster, traffic)
    ns_by_key: dict[tuple[str, str, str], int] = {}
    of_row = path.row != HOST
    work = schedule.op[path.row].astype(np.int64) * len(Lane) + schedule.lane[path.row]
    kind = np.where(of_row, work * len(places) + place[path.row], HOST)
    kinds, index = np.unique(kind, return_inverse=True)
    spent = np.bincount(index, path.duration_ns, len(kinds))
    for code, ns in zip(kinds.tolist(), spent.tolist(), strict=True):
        op = Op(code // len(places) // len(Lane)) if code != HOST else None
        link = places[code % len(places)] if op in COLLECTIVES else ""
        ns_by_key["" if op is None else op.name, "" if op is None else Lane(code // len(places) % len(Lane)).name, link] = ns
    shares = [PathShare(*key, share=ns / trace.span_ns) for key, ns in ns_by_key.items()]
    return tuple(sorted(shares, key=lambda share: (-share.share, share.op, share.lane, share.link)))


def _places(schedule: Schedule, cluster: Cluster, traffic: LinkTraffic | None) -> tuple[Ints, list[str]]:
    """Return where the collective of each row takes longest, int64 [rows], as an index into the places in words that come second; 0 for
    other rows.
    """
    rows = np.flatnonzero(schedule.collective >= 0)
    place, places = np.zeros(len(schedule), np.int64), ["inside a node", "between nodes"]
    if not len(rows):
        return place, places
    numbers, index = np.unique(schedule.collective[rows], return_inverse=True)
    node = pd.Series(schedule.rank[rows] // cluster.gpus_per_node).groupby(index)
    place_of_collective = (node.min() != node.max()).to_numpy().astype(np.int64)
    if traffic is not None:
        row, link = slowest_links(traffic)
        of_collective = schedule.collective[row] >= 0
        kinds, kind = np.unique(np.array(traffic.links.kinds)[link[of_collective]], return_inverse=True)
        place_of_collective[np.searchsorted(numbers, schedule.collective[row[of_collective]])] = len(places) + kind
        places += [f"on {kind}" for kind in kinds.tolist()]
    place[rows] = place_of_collective[index]
    return place, places
