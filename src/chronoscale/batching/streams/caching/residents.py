"""Residents: which rows of features lie on the device, and so which of a batch's rows have to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.caching.loading import Cached, Loading
from chronoscale.batching.streams.caching.retention import Retention
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64

NOTHING: Int32 = np.empty(0, np.int32)


class Load(NamedTuple):
    """Of the n rows of a table that a batch reads: send int32 [S], those that cross the bus; at int64 [n], where each row is read: from
    the slots of the cache first, then from what was sent, None: as it was sent; kept int64 [R]: the slots of the first R rows that were
    sent, which stay for later batches."""

    send: Int32
    at: Int64 | None = None
    kept: Int64 | None = None


class Loads(NamedTuple):
    """Of features of nodes, of features of events, and of node memory, of which nothing is cached: it changes."""

    nodes: Load
    edges: Load
    state: Load

    @property
    def numbers(self) -> int:
        """Of indices that are sent beside rows: where they are read, and which slots they go to; those of events are in the trees in any
        case."""
        found = {id(load.at): load.at for load in (self.nodes, self.state)}.values()
        return sum(index.size for index in (*found, self.nodes.kept, self.edges.kept) if index is not None)


class Residents:
    """Of one rank, whose device holds `cached` of a stream's nodes and events. A dynamic placement is told of the batches of an epoch by
    `following`, and then asked for them in that order."""

    def __init__(self, loading: Loading, cached: Cached, nodes: int, events: int) -> None:
        self._loading, self.cached, self._sizes = loading, cached, (nodes, events)
        self._slots = tuple(_slots(ids, rows) for ids, rows in zip(cached, self._sizes, strict=True))
        self._retained: Sequence[Retention] = ()

    @property
    def ahead(self) -> bool:
        """Whether it has to know an epoch's batches before it begins."""
        return self._loading.placement is not None and self._loading.placement.dynamic

    def following(self, batches: Sequence[Cached]) -> Residents:
        """For an epoch of batches that read these different rows, ascending."""
        found = Residents(self._loading, self.cached, *self._sizes)
        asked = zip(*batches, strict=True) if batches else ((), ())
        found._retained = [Retention(of, *size) for of, size in zip(asked, zip(self._sizes, self.slots, strict=True), strict=True)]
        return found

    def without(self) -> Residents:
        """Nothing is cached, and rows are sent as they are read."""
        return Residents(replace(self._loading, compressed=False, placement=None), Cached(NOTHING, NOTHING), *self._sizes)

    @property
    def slots(self) -> tuple[int, int]:
        """Of the cache, for nodes and for events."""
        return self.cached.nodes.size, self.cached.edges.size

    def load(self, found: Neighbourhood, source: Source) -> Loads:
        """What the next batch needs, sampled from a source; events by their numbers in the whole stream."""
        one = self._loading
        state = _load(found.nodes, None, 0, one.compressed) if one.memory else Load(NOTHING)
        nodes = self._of(0, found.nodes) if one.node else Load(NOTHING)
        if one.memory and one.node and not self.slots[0]:
            nodes = state  # one index for both
        return Loads(nodes, self._of(1, source.original(found.edges)) if one.edge else Load(NOTHING), state)

    def _of(self, which: int, ids: Int32) -> Load:
        slots, compressed = self.slots[which], self._loading.compressed
        if not self._retained:
            return _load(ids, self._slots[which], slots, compressed)
        once, index = unique_ids(ids) if compressed else (ids, None)
        load = _changing(self._retained[which], once, slots)
        return load if index is None or load.at is None else load._replace(at=load.at[index])


def _changing(retained: Retention, ids: Int32, slots: int) -> Load:
    """Rows that are kept from now on are sent once, before the others that are missing."""
    slot, (come, where) = retained.slots[ids], retained.next()
    place = np.searchsorted(come, ids)
    new = (slot < 0) & (np.append(come, -1)[place] == ids)
    rest = _placed(ids[~new], slot[~new], slots + come.size)
    assert rest.at is not None
    at = slots + place
    at[~new] = rest.at
    return Load(np.concatenate([come, rest.send]), at, where)


def _slots(cached: Int32, rows: int) -> Int64 | None:
    """The slot of each row, int64 [rows], -1 for none; None where nothing is cached."""
    if not cached.size:
        return None
    found, full = np.full(rows, -1, np.int64), np.flatnonzero(cached >= 0)
    found[cached[full]] = full
    return found


def _load(ids: Int32, slot: Int64 | None, slots: int, compressed: bool) -> Load:
    """Of rows ids [n] of a table, of which those with a slot are on the device."""
    if slot is not None and slots == slot.size:  # all of them may be there: then there is nothing to compress
        compressed = compressed and bool((slot[ids] < 0).any())
    if not compressed:
        return Load(ids) if slot is None else _placed(ids, slot[ids], slots)
    once, index = unique_ids(ids)
    if slot is None:
        return Load(once, index)
    placed = _placed(once, slot[once], slots)
    assert placed.at is not None
    return placed._replace(at=placed.at[index])


def _placed(ids: Int32, slot: Int64, slots: int) -> Load:
    missing = slot < 0
    return Load(ids[missing], np.where(missing, slots - 1 + np.cumsum(missing), slot))
