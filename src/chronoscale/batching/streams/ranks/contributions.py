"""Contributions to node memories and mailboxes: which rank computes which in an iteration, and who has the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.ranks.delivery import deliver_mail
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.arrays import Bool, Int32, Int64


class Contributions(NamedTuple):
    """Contributions of one iteration's events to node memories and mailboxes (TGN's state of each node), when a stream is partitioned over
    ranks: which rank computes each, and which has the row that it goes to. Ascending by holder, home and node.

    holder int64 [n]: the rank that computes it; home int64 [n]: the one that has the node's row, SHARED: all; node int64 [n]. last int64
    [n]: the event after which the node's memory is written, -1 where nothing but mail comes; source bool [n]: the node sends that event.
    to, event int64 [D]: mails, each the index of a contribution and the number of the event that it is of, ascending by both.
    """

    holder: Int64
    home: Int64
    node: Int64
    last: Int64
    source: Bool
    to: Int64
    event: Int64

    def of(self, rank: int) -> slice:
        """Return the slice of the contributions that a rank computes."""
        return slice(int(np.searchsorted(self.holder, rank)), int(np.searchsorted(self.holder, rank, side="right")))

    def counts(self, ranks: int) -> Int64:
        """Count the contributions that each rank computes for the rows of each, int64 [ranks, 1 + ranks]; the first column is of shared
        nodes."""
        width = ranks + 1
        return np.bincount(self.holder * width + self.home - SHARED, minlength=ranks * width).reshape(ranks, width)


def compute_contributions(
    source: IndexedStream, whole: range, holder: Int64, home: Int32 | None, newest: bool, delivers: int
) -> Contributions:
    """Find what each rank contributes to node memories and mailboxes in one iteration of a distributed stream; every rank finds the same,
    without communication.

    whole: the iteration's events. holder int64 [B]: the rank that has each. home int32 [N]: the part that has each node's row
    (`EventPartition.node`); None: a holder has them all. newest: as in `StreamDistribution`. delivers: to how many neighbours of an event's
    ends its mail goes, too (APAN).

    A node's memory is written once, by whoever has its last event: what it becomes follows from what was there before the iteration.
    """
    span = slice(whole.start, whole.stop)
    ends = np.stack([np.asarray(source.stream.src[span]), np.asarray(source.stream.dst[span])], axis=1).ravel().astype(np.int64)
    rank_of_end, event = np.repeat(holder, 2), np.repeat(np.arange(whole.start, whole.stop, dtype=np.int64), 2)
    ranks = int(holder.max(initial=0)) + 1
    apart = np.zeros(ends.size, np.bool_) if home is None or newest else home[ends] == SHARED
    key = ends * (ranks + 1) + np.where(apart, rank_of_end + 1, 0)
    last = ends.size - 1 - np.unique(key[::-1], return_index=True)[1]
    writes = rank_of_end[last] + ends[last] * ranks  # who computes what
    if not delivers:
        return _order_contributions(rank_of_end[last], ends[last], home, (event[last], np.arange(last.size)), (source, event[last]))
    delivery = deliver_mail(source, whole, delivers)
    mails = holder[delivery.event - whole.start] + delivery.nodes[delivery.to] * ranks
    keys, place = np.unique(np.concatenate([writes, mails]), return_inverse=True)
    written = np.full(keys.size, -1, np.int64)
    written[place[: last.size]] = event[last]
    return _order_contributions(keys % ranks, keys // ranks, home, (delivery.event, place[last.size :]), (source, written))


def _order_contributions(
    holder: Int64, node: Int64, home: Int32 | None, mails: tuple[Int64, Int64], written: tuple[IndexedStream, Int64]
) -> Contributions:
    where = holder if home is None else home[node].astype(np.int64)
    order = np.lexsort((node, where, holder))
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    event, to = mails[0], place[mails[1]]
    by_place = np.lexsort((event, to))
    (source, last), node = written, node[order]
    last = last[order]
    sends = np.asarray(source.stream.src)[np.maximum(last, 0)] == node
    return Contributions(holder[order], where[order], node, last, sends & (last >= 0), to[by_place], event[by_place])
