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
    """Critical path of k steps in order of time, arrays [k]. A step is a row of the schedule, or a time in which a rank's host launches
    kernels.

    In a replay steps follow one another without a gap from the epoch's start to its end; in a measured trace something that no row records
    may lie between two.
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
    """Share (of 1) of an epoch that its critical path spends in one operation of one lane.

    op, lane: names, '' where a host launches kernels. link: where a collective's bytes take longest: "on NICs" and the like, or "inside a
    node" or "between nodes" where no links are modelled; '' for what is no collective.
    """

    op: str
    lane: str
    link: str
    share: float


def critical_path(schedule: Schedule, trace: Trace, device: Device, launches: Launches | None = None) -> CriticalPath:
    """Return the critical path of a trace: walk back from the last end through whatever made each row start when it did.

    That is the row before it in its stream, the dependency that ended last, or its host's launches; for a collective, the same of the
    member that arrived last. Of several that ended at one time the stream counts first.

    launches: the launches that the trace was replayed with. Raises ValueError for a trace that lacks rows of `schedule`.
    """
    if len(trace) != len(schedule):
        raise ValueError(f"critical path: the trace of '{trace.strategy}' has {len(trace)} of {len(schedule)} rows")
    if not len(schedule):
        empty = np.zeros(0, np.int64)
        return CriticalPath(empty, np.zeros(0, np.int32), empty, empty)
    rows, end = len(schedule), trace.end_ns
    by, ready = _ready(schedule, device, end)
    begun, turn_by, turn_rank = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    if launches is not None:
        (begun, turn_by), turn_rank = _turns(launches, end), launches.rank
        launched = begun[launches.turn] + launches.after_ns
        held = launched > ready
        by[held], ready[held] = rows + launches.turn[held], launched[held]
    _join(schedule, by, ready)

    follows = [*by.tolist(), *turn_by.tolist()]
    found = [int(np.argmax(end))]
    while (node := follows[found[-1]]) >= 0:
        found.append(node)
    node_start = np.concatenate([trace.start_ns, begun])
    path = np.array(found[::-1], np.int64)
    of_row = path < rows
    start = np.maximum(node_start[path], trace.start_ns.min())
    stop = np.append(start[1:], end[path[-1]])
    row = np.where(of_row, path, HOST)
    rank = np.concatenate([schedule.rank, turn_rank])[path].astype(np.int32)
    return CriticalPath(row, rank, start, np.where(of_row, end[row], stop))


def _ready(schedule: Schedule, device: Device, end: Ints) -> tuple[Ints, Ints]:
    """Return what each row waits for longest, the row before it in its stream or a dependency (-1: none), and when that ends (ns); int64
    [rows] each.
    """
    stream = streams_of(schedule, device)
    order = np.argsort(stream, kind="stable")
    by = np.full(len(schedule), -1, np.int64)
    same = np.diff(stream[order]) == 0
    by[order[1:][same]] = order[:-1][same]
    ready = np.where(by >= 0, end[by], 0)
    waiter = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
    latest = np.lexsort((end[schedule.dep], waiter))
    latest = latest[np.flatnonzero(np.diff(waiter, append=-1))]  # waiters ascend: the last of each ends last
    row, dep = waiter[latest], schedule.dep[latest]
    later = end[dep] > ready[row]
    by[row[later]], ready[row[later]] = dep[later], end[dep[later]]
    return by, ready


def _turns(launches: Launches, end: Ints) -> tuple[Ints, Ints]:
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


def _join(schedule: Schedule, by: Ints, ready: Ints) -> None:
    """Let every row of a collective wait for what its last member waits for, in place."""
    rows = np.flatnonzero(schedule.collective >= 0)
    rows = rows[np.lexsort((ready[rows], schedule.collective[rows]))]
    ends = np.flatnonzero(np.diff(schedule.collective[rows], append=-1))
    last = np.repeat(rows[ends], np.diff(ends, prepend=-1))
    by[rows] = by[last]


def path_shares(
    path: CriticalPath, schedule: Schedule, trace: Trace, cluster: Cluster, crossed: LinkTraffic | None = None
) -> tuple[PathShare, ...]:
    """Return what a critical path is made of, the largest share first; nothing for an epoch of no length. Shares of a replay add up to 1.

    crossed: bytes on links by the rows of `schedule`, where links are modelled.
    """
    if not trace.span_ns:
        return ()
    place, places = _places(schedule, cluster, crossed)
    keys: dict[tuple[str, str, str], int] = {}
    of_row = path.row != HOST
    work = schedule.op[path.row].astype(np.int64) * len(Lane) + schedule.lane[path.row]
    kind = np.where(of_row, work * len(places) + place[path.row], HOST)
    kinds, index = np.unique(kind, return_inverse=True)
    spent = np.bincount(index, path.duration_ns, len(kinds))
    for code, ns in zip(kinds.tolist(), spent.tolist(), strict=True):
        op = Op(code // len(places) // len(Lane)) if code != HOST else None
        link = places[code % len(places)] if op in COLLECTIVES else ""
        keys["" if op is None else op.name, "" if op is None else Lane(code // len(places) % len(Lane)).name, link] = ns
    found = [PathShare(*key, share=ns / trace.span_ns) for key, ns in keys.items()]
    return tuple(sorted(found, key=lambda one: (-one.share, one.op, one.lane, one.link)))


def _places(schedule: Schedule, cluster: Cluster, crossed: LinkTraffic | None) -> tuple[Ints, list[str]]:
    """Return where the collective of each row takes longest, int64 [rows], as an index into the places in words that come second; 0 for
    other rows.
    """
    rows = np.flatnonzero(schedule.collective >= 0)
    found, places = np.zeros(len(schedule), np.int64), ["inside a node", "between nodes"]
    if not len(rows):
        return found, places
    numbers, index = np.unique(schedule.collective[rows], return_inverse=True)
    node = pd.Series(schedule.rank[rows] // cluster.gpus_per_node).groupby(index)
    where = (node.min() != node.max()).to_numpy().astype(np.int64)
    if crossed is not None:
        row, link = slowest_links(crossed)
        joined = schedule.collective[row] >= 0
        kinds, kind = np.unique(np.array(crossed.links.kinds)[link[joined]], return_inverse=True)
        where[np.searchsorted(numbers, schedule.collective[row[joined]])] = len(places) + kind
        places += [f"on {kind}" for kind in kinds.tolist()]
    found[rows] = where[index]
    return found, places
