"""Remoteness: how much of what a stream's events and their recent neighbours are is in other parts (MemShare, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.ranks.local_negatives import local_training_negatives
from chronoscale.datasets.arrays import Int32, Int64, release
from chronoscale.datasets.streams import negatives
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

_BLOCK = 1 << 18  # events that are looked at together
_NONE = -2  # in place of a part: no event yet
HOT, COLD, NEGATIVE = range(3)

EventNegatives = Callable[[Int64], Int32]  # of events [B] ascending, the negative of each, int32 [B]


@dataclass(frozen=True, slots=True, eq=False)
class Remoteness:
    """Counts of what training on a partition of an event stream reads from other parts than an event's own (MemShare §4.2), of `events`
    events in `parts` parts. Roots, for which neighbours are sampled, are the two ends of each event and its negative destination; each has
    up to `neighbours` recent neighbours.

    cut: events whose ends have different parts, neither shared. The others are int64 [3]: of ends that are HOT (shared), of ends that are
    COLD (not shared), and of NEGATIVE destinations. roots: how many; away: roots whose row is in another part; slots: neighbours that they
    have; edges: neighbours whose event is in another part; nodes: neighbours whose node's row is.
    """

    parts: int
    events: int
    neighbours: int
    cut: int
    roots: Int64
    away: Int64
    slots: Int64
    edges: Int64
    nodes: Int64

    @classmethod
    def of(
        cls, stream: EventStream, parts: EventPartition, neighbours: int, batch: int, others: EventNegatives | None = None
    ) -> Remoteness:
        """Count the roots and neighbours that are read from other parts, in batches of `batch` events of all parts together, whose events
        do not see each other. others: draws the negative of each event; None: without negatives. The stream is read in blocks; memory is 8
        N `neighbours` bytes and a block.

        Raises UserError for neighbours or a batch below 1 and for a partition of a stream of another size.
        """
        if neighbours < 1 or batch < 1:
            raise UserError(f"expected at least 1 neighbour and batches of at least 1 event, got {neighbours} and {batch}")
        if (parts.node.size, parts.event.size) != (stream.num_nodes, len(stream)):
            raise UserError(
                f"parts of {parts.node.size} nodes and {parts.event.size} events do not fit '{stream.name}', which has {stream.num_nodes} "
                f"and {len(stream)}"
            )
        size, recent = max(_BLOCK // batch, 1) * batch, np.full((2, stream.num_nodes, neighbours), _NONE, np.int32)
        cut, totals = 0, np.zeros((5, 3), np.int64)
        for first in range(0, len(stream), size):
            span = slice(first, first + size)
            part, columns = parts.event[span], [stream.src[span], stream.dst[span]]
            if others is not None:
                columns.append(others(np.arange(first, first + part.size)))
            roots = np.stack(columns, axis=1)
            home = parts.node[roots]
            cut += int(np.count_nonzero((home[:, 0] != home[:, 1]) & (home[:, :2] != SHARED).all(1)))
            totals += _count_block(roots, part, home, recent, np.arange(part.size) // batch)
            for column in (stream.src, stream.dst, parts.event):
                release(column)
        return cls(parts.count, len(stream), neighbours, cut, *totals)


def partition_negatives(stream: EventStream, parts: EventPartition, remote: float = 1.0, seed: int = 0) -> EventNegatives:
    """Return a function that draws the negative destination of each event of a partitioned stream, int32 [B], as the first epoch of
    training does: a share `remote` of them from all destinations, the others from those that the event's part has (MemShare §4.3)."""
    among = negatives.destinations(np.asarray(stream.dst), stream.num_nodes)
    local = [among[parts.here(part)[among]] for part in range(parts.count)] if remote < 1 else []

    def others(events: Int64) -> Int32:
        dst, part = np.asarray(stream.dst[events]), parts.event[events]
        if remote >= 1:
            return negatives.training_negatives(dst, events, among, seed=seed, epoch=0)[:, 0]
        negative = np.empty(events.size, np.int32)
        for number, nodes in enumerate(local):
            places = np.flatnonzero(part == number)
            negative[places] = local_training_negatives(dst[places], events[places], among, nodes, remote, seed=seed, epoch=0)[0][:, 0]
        return negative

    return others


def _count_block(roots: Int32, part: Int32, home: Int32, recent: Int32, batch: Int64) -> Int64:
    """Count roots, away, slots, edges, nodes, int64 [5, 3], of a block of events [B]: roots and their homes, int32 [B, 2 or 3], parts,
    batches. recent [2, N, n]: part of each node's latest events and home of their other ends, the newest last; brought up to date."""
    neighbours = recent.shape[2]
    width = roots.shape[1]
    node = roots.ravel()
    order = np.argsort(node, kind="stable")
    node, (event, side) = node[order], np.divmod(order, width)
    own, lies = part[event], home.ravel()[order]
    kind = np.where(side == 2, NEGATIVE, np.where(lies == SHARED, HOT, COLD))
    remembers = (side == 0) | (side == 1) & (roots[event, 0] != roots[event, 1])  # an event with itself is one neighbour
    new = np.append(True, node[1:] != node[:-1])
    number = np.cumsum(new) - 1  # of the different nodes
    place = np.cumsum(remembers) - remembers + neighbours * (number + 1)  # in a row that has each node's history before its events
    starts = new | np.append(True, batch[event[1:]] != batch[event[:-1]])
    visible_end = np.maximum.accumulate(np.where(starts, place, 0))  # where its batch begins
    last = (place + remembers - 1)[np.append(new[1:], True)]
    begins, kinds = place[new], node[new]
    rows = np.empty((2, int(last[-1]) + 1), np.int32)
    for history, row, column in zip(recent, rows, (own, home[event, 1 - side % 2]), strict=True):
        row[begins[:, None] + np.arange(-neighbours, 0)] = history[kinds]
        row[place[remembers]] = column[remembers]
        history[kinds] = row[last[:, None] + np.arange(1 - neighbours, 1)]
    totals = np.zeros((5, 3), np.int64)
    totals[:2] = np.bincount(kind, minlength=3), np.bincount(kind[(lies != own) & (lies != SHARED)], minlength=3)
    for back in range(1, neighbours + 1):
        event_part, node_part = (row[visible_end - back] for row in rows)
        masks = (
            event_part != _NONE,
            (event_part != own) & (event_part != _NONE),
            (node_part != own) & (node_part != SHARED) & (node_part != _NONE),
        )
        for total, mask in zip(totals[2:], masks, strict=True):
            total += np.bincount(kind[mask], minlength=3)
    return totals
