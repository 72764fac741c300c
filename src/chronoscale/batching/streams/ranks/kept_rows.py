"""Kept rows: which rows of other ranks a rank still has from earlier batches, so that they are fetched once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.ranks.delivery import deliver_mail
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.arrays import Bool, Int32, Int64


class PlacedRows(NamedTuple):
    """Where rows are that a batch asks other ranks for. kept bool [n]: which are kept from earlier; slot int64 [n]: from where each of
    these is read, and where each other one is written once it has come, -1: nowhere."""

    kept: Bool
    slot: Int64


class KeptTable:
    """Slots for rows of other ranks, of nodes or of events, that a rank keeps: at most `capacity` of `ids` ids.

    A row that comes again, as it has become, has its slot again; others take slots in turn, so that the one that came first goes first. A
    slot is read before it is written anew.
    """

    def __init__(self, ids: int, capacity: int) -> None:
        self._slot, self._valid = np.full(ids, -1, np.int32), np.zeros(ids, np.bool_)
        self._owner = np.full(min(capacity, ids), -1, np.int32)
        self._next = 0

    def drop(self, ids: np.ndarray) -> None:
        """Forget what rows were: they are other ones now. ids: repeated or not."""
        self._valid[ids] = False

    def place(self, ids: Int32) -> PlacedRows:
        """Return where the different rows `ids` [n] are, and keep those that are not yet, as far as there is room for them."""
        before, kept = self._slot[ids].astype(np.int64), self._valid[ids]
        fresh = np.flatnonzero(before < 0)[: self._owner.size]
        at = (self._next + np.arange(fresh.size)) % max(self._owner.size, 1)
        gone = self._owner[at]
        self._slot[gone[gone >= 0]], self._valid[gone[gone >= 0]] = -1, False
        self._owner[at], self._slot[ids[fresh]] = ids[fresh], at
        self._next = (self._next + fresh.size) % max(self._owner.size, 1)
        after = self._slot[ids].astype(np.int64)
        self._valid[ids] = after >= 0
        return PlacedRows(kept, np.where(kept, before, after))


class KeptRows:
    """Rows of other ranks that one rank keeps through the iterations of a distributed stream's training or validation events.

    Every rank knows all events, and so which nodes an iteration writes: a node's row is as it was fetched until then, and an event's
    features are for ever. What is read in an iteration is exactly what it would fetch: memory is up to date when it is read. delivers: to
    how many neighbours of an event's ends its mail goes, too (APAN). capacity: rows, of nodes and of events each.
    """

    def __init__(self, source: IndexedStream, assignment: RankAssignment, delivers: int, events: int, capacity: int) -> None:
        """events: how many the whole stream has; ids of events are numbers there."""
        self._source, self._assignment, self._delivers = source, assignment, delivers
        self._tables = KeptTable(source.stream.num_nodes, capacity), KeptTable(events, capacity)
        self._settled = 0  # iterations whose writes have been seen

    def ask(self, iteration: int, nodes: Int32, edges: Int32) -> tuple[PlacedRows, PlacedRows]:
        """Return where the rows are that the rank's batch in an iteration asks other ranks for: of nodes, and of events. Iterations come in
        order; some may be left out."""
        for written in range(self._settled, iteration):
            self._tables[0].drop(self._written(written))
        self._settled = iteration
        return self._tables[0].place(nodes), self._tables[1].place(edges)

    def _written(self, iteration: int) -> np.ndarray:
        """Return the nodes whose memory or mailbox an iteration's events write, repeated or not."""
        whole = self._assignment.batches.all_events(iteration)
        if self._delivers:
            return deliver_mail(self._source, whole, self._delivers).nodes
        span = slice(whole.start, whole.stop)
        return np.concatenate([self._source.stream.src[span], self._source.stream.dst[span]])
