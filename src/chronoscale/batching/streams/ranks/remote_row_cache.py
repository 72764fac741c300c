"""RemoteRowCache: rows of other ranks that a rank caches from batch to batch, so that each is fetched once until it changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.ranks.delivery import deliver_mail
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.cuda_ext.native.arguments import CachedRows
from chronoscale.datasets.arrays import Bool, Int32, Int64


class CacheLookup(NamedTuple):
    """Which rows of a batch are in a cache, and where. hit bool [n]: the row is cached; slot int64 [n]: where a hit is read, and where a
    miss is written once it has been fetched, -1: nowhere."""

    hit: Bool
    slot: Int64


class CacheSlots:
    """Slots of a cache of rows, of nodes or of events: at most `capacity` of `ids` ids.

    A row that is fetched again, since it has changed, has its slot again; others take slots in turn, so that the row that came first is
    evicted first. A slot is read before it is written anew.
    """

    def __init__(self, ids: int, capacity: int) -> None:
        self._slot, self._valid = np.full(ids, -1, np.int32), np.zeros(ids, np.bool_)
        self._owner = np.full(min(capacity, ids), -1, np.int32)
        self._next = 0

    def invalidate(self, ids: np.ndarray) -> None:
        """Mark rows as changed since they were fetched. ids: repeated or not."""
        self._valid[ids] = False

    @property
    def slots(self) -> Int32:
        """Where each row is, changed since or not, int32 [ids]; -1: nowhere."""
        return self._slot

    def look_up(self, ids: Int32, stale: Bool | None = None) -> CacheLookup:
        """Return which of the different rows `ids` [n] are cached, and assign slots to the others, as far as there are any.

        stale: which rows may have changed since they were fetched, bool [n]; None: none.
        """
        before, valid = self._slot[ids].astype(np.int64), self._valid[ids]
        hit = valid if stale is None else valid | stale & (before >= 0)
        fresh = np.flatnonzero(before < 0)[: self._owner.size]
        slots = (self._next + np.arange(fresh.size)) % max(self._owner.size, 1)
        owners = self._owner[slots]
        evicted = owners[owners >= 0]
        self._slot[evicted], self._valid[evicted] = -1, False
        self._owner[slots], self._slot[ids[fresh]] = ids[fresh], slots
        self._next = (self._next + fresh.size) % max(self._owner.size, 1)
        after = self._slot[ids].astype(np.int64)
        self._valid[ids] = (after >= 0) & (valid | ~hit)
        return CacheLookup(hit, np.where(hit, before, after))


class RemoteRowCache:
    """Cache of other ranks' rows on one rank, through the iterations of a distributed stream's training or validation events: which rows it
    has; the rows themselves are where they are read.

    Every rank knows all events, and so which nodes an iteration writes: until then a node's row is as it was fetched, and an event's
    features are for ever. A hit is exactly what would be fetched, but for rows that may be stale: memory is up to date when it is read.
    delivers: to how many neighbours of an event's ends its mail goes, too (APAN). capacity: rows, of nodes and of events each.
    """

    def __init__(self, source: IndexedStream, assignment: RankAssignment, delivers: int, capacity: int) -> None:
        self._source, self._assignment, self._delivers = source, assignment, delivers
        self._nodes, self._events = CacheSlots(source.stream.num_nodes, capacity), CacheSlots(len(source.stream), capacity)
        self._seen = 0  # iterations whose writes have been seen

    def rows(self, edges: bool) -> CachedRows:
        """Return which rows are there, as old as they are, for the next batch's sampling. edges: whether events' are read at all."""
        return CachedRows(self._nodes.slots, self._events.slots if edges else None)

    def look_up(self, iteration: int, nodes: Int32, events: Int32, stale: Bool | None = None) -> tuple[CacheLookup, CacheLookup]:
        """Look up the rows of other ranks that the rank's batch in an iteration reads: of nodes, and of events, by their numbers in the
        whole stream. Iterations come in order; some may be left out. stale: which of the nodes' rows may be as old as they are, bool [n];
        None: none."""
        for written in range(self._seen, iteration):
            self._nodes.invalidate(self._written(written))
        self._seen = iteration
        return self._nodes.look_up(nodes, stale), self._events.look_up(self._source.numbered_here(events))

    def _written(self, iteration: int) -> np.ndarray:
        """Return the nodes whose memory or mailbox an iteration's events write, repeated or not."""
        whole = self._assignment.batches.all_events(iteration)
        if self._delivers:
            return deliver_mail(self._source, whole, self._delivers).nodes
        span = slice(whole.start, whole.stop)
        return np.concatenate([self._source.stream.src[span], self._source.stream.dst[span]])
