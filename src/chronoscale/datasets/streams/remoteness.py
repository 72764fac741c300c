"""Remoteness: how much of what a stream's events and their recent neighbours are is in other parts (MemShare, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Int32, Int64, release
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.parts import SHARED, Parts
from chronoscale.errors import UserError

_BLOCK = 1 << 18  # events that are looked at together
_NONE = -2  # in place of a part: no event yet
HOT, COLD = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Remoteness:
    """Of `events` in `parts` parts, whose roots are the two ends of each, in the event's part, with up to `neighbours` recent neighbours.

    cut: events whose ends have different parts, neither shared. away: roots whose row is in another part. int64 [2] each, of HOT (shared)
    roots and of COLD ones: roots; their `slots`, neighbours that there are; of these, slots whose event is in another part (`edges`), and
    slots whose node's row is (`nodes`).
    """

    parts: int
    events: int
    neighbours: int
    cut: int
    away: int
    roots: Int64
    slots: Int64
    edges: Int64
    nodes: Int64

    @classmethod
    def of(cls, stream: EventStream, parts: Parts, neighbours: int, batch: int) -> Remoteness:
        """In batches of `batch` events of all parts together, of which none sees another; streamed, in 8 N `neighbours` bytes and a block.

        Raises UserError for neighbours or a batch below 1 and for parts of a stream of another size.
        """
        if neighbours < 1 or batch < 1:
            raise UserError(f"expected at least 1 neighbour and batches of at least 1 event, got {neighbours} and {batch}")
        if (parts.node.size, parts.event.size) != (stream.num_nodes, len(stream)):
            raise UserError(
                f"parts of {parts.node.size} nodes and {parts.event.size} events do not fit '{stream.name}', which has {stream.num_nodes} "
                f"and {len(stream)}"
            )
        size, recent = max(_BLOCK // batch, 1) * batch, np.full((2, stream.num_nodes, neighbours), _NONE, np.int32)
        cut, away, totals = 0, 0, np.zeros((4, 2), np.int64)
        for first in range(0, len(stream), size):
            span = slice(first, first + size)
            ends, part = np.stack([stream.src[span], stream.dst[span]], axis=1), parts.event[span]
            home = parts.node[ends]
            cut += int(np.count_nonzero((home[:, 0] != home[:, 1]) & (home != SHARED).all(1)))
            away += int(np.count_nonzero((home != part[:, None]) & (home != SHARED)))
            totals += _around(ends, part, home, recent, np.arange(part.size) // batch)
            for column in (stream.src, stream.dst, parts.event):
                release(column)
        return cls(parts.count, len(stream), neighbours, cut, away, *totals)


def _around(ends: Int32, part: Int32, home: Int32, recent: Int32, batch: Int64) -> Int64:
    """Roots, slots, edges, nodes, int64 [4, 2], of events [B]: ends [B, 2] and their homes, parts, batches. recent [2, N, n]: part of each
    node's latest events and home of their other ends, the newest last; brought up to date."""
    neighbours, node = recent.shape[2], ends.ravel()
    order = np.argsort(node, kind="stable")
    node, event = node[order], order // 2
    new = np.append(True, node[1:] != node[:-1])
    which = np.cumsum(new) - 1  # of the different nodes
    once = (order % 2 == 0) | (ends[event, 0] != ends[event, 1])  # an event with itself is one neighbour
    place = np.cumsum(once) - 1 + neighbours * (which + 1)  # in a row that has each node's history before its events
    starts = new | np.append(True, batch[event[1:]] != batch[event[:-1]])
    seen = np.maximum.accumulate(np.where(starts, place, 0))  # where its batch begins
    rows = np.empty((2, int(place[-1]) + 1), np.int32)
    begins, kinds = place[new], node[new]
    for history, row, column in zip(recent, rows, (part[event], home[:, ::-1].ravel()[order]), strict=True):
        row[begins[:, None] + np.arange(-neighbours, 0)] = history[kinds]
        row[place[once]] = column[once]
        last = np.append(place[:-1][new[1:]], place[-1])
        history[kinds] = row[last[:, None] + np.arange(1 - neighbours, 1)]
    own, cold = part[event], home.ravel()[order] != SHARED
    totals = np.zeros((4, 2), np.int64)
    totals[0] = np.bincount(cold, minlength=2)
    for back in range(1, neighbours + 1):
        where, there = (row[seen - back] for row in rows)
        found = where != _NONE, (where != own) & (where != _NONE), (there != own) & (there != SHARED) & (there != _NONE)
        for total, some in zip(totals[1:], found, strict=True):
            total += np.bincount(cold[some], minlength=2)
    return totals
