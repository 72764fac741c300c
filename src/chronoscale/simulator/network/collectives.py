"""Collectives: the communication rows of a schedule, grouped into operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from chronoscale.datasets.arrays import UInt8
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule

Layout = Literal["usual", "tree", "nvls"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)  # an operation's usual one, and others of all-reduces


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveGroup:
    """Collectives of a schedule that are of one operation and among the same p ranks, c of them, timed together by the simulator.

    index: which ones, int64 [c]; ranks: ascending, [p]; moved: bytes that each rank brings, int64 [p, c].
    """

    op: Op
    index: Ints
    ranks: Ints
    moved: Ints


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveCosts:
    """Simulated times of c collectives.

    seconds: in all; latency_s: without the bytes; wire: share of what crosses a link that is data; float64 [c]. pattern: the number, among
    LAYOUTS, of how it is laid out over the links, uint8 [c].
    """

    seconds: Floats
    latency_s: Floats
    wire: Floats
    pattern: UInt8

    @classmethod
    def unknown(cls, count: int) -> CollectiveCosts:
        """Return times of `count` collectives that any other is less than: infinite, to be replaced by `put`."""
        return cls(np.full(count, np.inf), np.zeros(count), np.ones(count), np.zeros(count, np.uint8))

    def put(self, index: Ints, seconds: Floats, latency_s: Floats | float, wire: float = 1.0, layout: Layout = "usual") -> None:
        """Replace the times of the collectives `index` where `seconds` is less than what stands there: the fastest algorithm wins.

        seconds, latency_s [len(index)]: in all, and without the bytes. wire: share of what crosses a link that is data. layout: how bytes
        cross the links.
        """
        better = seconds < self.seconds[index]
        at = index[better]
        self.seconds[at] = seconds[better]
        self.latency_s[at] = np.broadcast_to(latency_s, seconds.shape)[better]
        self.wire[at], self.pattern[at] = wire, LAYOUTS.index(layout)


@dataclass(frozen=True, slots=True, eq=False)
class Collectives:
    """Collectives of a schedule, as the simulator's network model sees them: c of them with r rows. SEND stands for messages."""

    row: Ints  # [r] of the schedule; members of a collective stand together, ranks ascending
    rank: Ints  # [r]
    moved: Ints  # [r] bytes
    begin: Ints  # [c] where each begins
    size: Ints  # [c] ranks of each
    op: UInt8  # [c]

    @classmethod
    def of(cls, schedule: Schedule) -> Collectives:
        """Find the collectives among the rows of a schedule.

        Raises ValueError when a communication row has no collective id, or another row has one.
        """
        row = np.flatnonzero(schedule.collective >= 0)
        communicates = np.isin(schedule.op, [int(op) for op in COLLECTIVES])
        if wrong := np.flatnonzero(communicates != (schedule.collective >= 0)).tolist():
            task = wrong[0]
            raise ValueError(
                f"schedule '{schedule.name}': task {task} is {Op(schedule.op[task]).name} with collective id {schedule.collective[task]}"
            )
        row = row[np.argsort(schedule.collective[row] * schedule.ranks + schedule.rank[row], kind="stable")]
        begin = np.flatnonzero(np.diff(schedule.collective[row], prepend=-1))
        op = np.where(schedule.op[row[begin]] == Op.RECV, np.uint8(Op.SEND), schedule.op[row[begin]])
        return cls(row, schedule.rank[row].astype(np.int64), schedule.bytes[row], begin, np.diff(begin, append=len(row)), op)

    def __len__(self) -> int:
        return len(self.begin)

    def first(self) -> Ints:
        """Return the first row of each collective in the schedule, int64 [c]."""
        first: Ints = np.minimum.reduceat(self.row, self.begin) if len(self) else self.row
        return first

    def messages(self, schedule: Schedule) -> tuple[Ints, Ints, Ints]:
        """Return which collectives are a SEND and its RECV, the rank that sends and the rank that receives; int64 [m] each.

        Raises ValueError where more than two rows are joined.
        """
        if (more := np.flatnonzero((self.op == Op.SEND) & (self.size > 2))).size:
            task = self.row[self.begin[more[0]]]
            raise ValueError(f"schedule '{schedule.name}': task {task} is a message of {self.size[more[0]]} rows, expected SEND and RECV")
        index = np.flatnonzero((self.op == Op.SEND) & (self.size == 2))
        begin = self.begin[index]
        later = (schedule.op[self.row[begin]] == Op.RECV).astype(np.int64)
        return index, self.rank[begin + later], self.rank[begin + 1 - later]

    def groups(self) -> Iterator[CollectiveGroup]:
        """Yield the collectives of two ranks or more grouped by operation and set of ranks, messages aside."""
        index = np.flatnonzero((self.size > 1) & (self.op != Op.SEND))
        if not len(index):
            return
        mark = np.random.default_rng(0).integers(2**63, size=int(self.rank.max()) + 1)  # sets of ranks by the sum of their marks
        key = np.add.reduceat(mark[self.rank], self.begin)[index] * 31 + self.op[index]
        _, group = np.unique(key, return_inverse=True)
        order = np.argsort(group, kind="stable")
        for part in np.split(index[order], np.cumsum(np.bincount(group))[:-1]):
            begin, ranks = self.begin[part], np.arange(self.size[part[0]])[:, None]
            yield CollectiveGroup(Op(self.op[part[0]]), part, self.rank[begin[0] + ranks[:, 0]], self.moved[begin + ranks])
