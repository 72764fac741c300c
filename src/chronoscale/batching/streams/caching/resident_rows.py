"""Resident rows: which rows of features lie on the device, and so which of a batch's rows have to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows, Loading
from chronoscale.batching.streams.caching.retained_rows import RetainedRows
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64

NO_ROWS: Int32 = np.empty(0, np.int32)


class TableLoad(NamedTuple):
    """Plan for one batch and one table of features: which of the n rows that the batch reads are copied to the device, and where each is
    then read.

    send int32 [S]: the rows that are copied, those that are not cached. at int64 [n]: the position of each row that is read, in the slots
    of the cache followed by the rows copied; None: in the order of `send`. kept int64 [R]: the cache slots that the first R rows of `send`
    go to, for later batches; None: none.
    """

    send: Int32
    at: Int64 | None = None
    kept: Int64 | None = None


class BatchLoads(NamedTuple):
    """Plan of what one batch copies to the device: features of nodes, features of events (edges), and node memory (state), of which nothing
    is cached, as it changes."""

    nodes: TableLoad
    edges: TableLoad
    state: TableLoad

    @property
    def numbers(self) -> int:
        """Number of indices that are copied beside the rows, to say where rows are read and which cache slots they go to; those of events
        are part of the sampled trees and are not counted."""
        indices = {id(load.at): load.at for load in (self.nodes, self.state)}.values()
        return sum(index.size for index in (*indices, self.nodes.kept, self.edges.kept) if index is not None)


class ResidentRows:
    """Cache of feature rows on the device of one rank: which of a stream's nodes and events are there (`cached`), and so which a batch has
    to copy. A dynamic placement learns the batches of an epoch by `for_epoch`, and then loads them in that order."""

    def __init__(self, loading: Loading, cached: CachedRows, nodes: int, events: int) -> None:
        self._loading = loading
        self.cached = cached
        self._sizes = (nodes, events)
        self._slots = tuple(_slot_of_rows(ids, rows) for ids, rows in zip(cached, self._sizes, strict=True))
        self._retained: Sequence[RetainedRows] = ()

    @property
    def ahead(self) -> bool:
        """Whether the cache has to know all batches of an epoch before it begins."""
        return self._loading.placement is not None and self._loading.placement.dynamic

    def for_epoch(self, batches: Sequence[CachedRows]) -> ResidentRows:
        """Return a cache for an epoch whose batches are known: the different rows that each reads, ascending, in the order in which they
        are loaded."""
        residents = ResidentRows(self._loading, self.cached, *self._sizes)
        rows_by_table = zip(*batches, strict=True) if batches else ((), ())
        residents._retained = [
            RetainedRows(rows, *size) for rows, size in zip(rows_by_table, zip(self._sizes, self.slots, strict=True), strict=True)
        ]
        return residents

    def without_cache(self) -> ResidentRows:
        """Return the same tables without a cache and without compression: every row that a batch reads is copied, as often as it is
        read."""
        return ResidentRows(replace(self._loading, compressed=False, placement=None), CachedRows(NO_ROWS, NO_ROWS), *self._sizes)

    @property
    def slots(self) -> tuple[int, int]:
        """Number of slots of the cache for nodes and for events."""
        return self.cached.nodes.size, self.cached.edges.size

    def load(self, neighbourhood: Neighbourhood, source: IndexedStream) -> BatchLoads:
        """Plan which rows of features and node memory the next batch copies to the device, from its sampled neighbourhood; features of
        events are those of the whole stream, of which `source` may be a part."""
        loading = self._loading
        state = _load_fixed(neighbourhood.nodes, None, 0, loading.compressed) if loading.memory else TableLoad(NO_ROWS)
        nodes = self._of(0, neighbourhood.nodes) if loading.node else TableLoad(NO_ROWS)
        if loading.memory and loading.node and not self.slots[0]:
            nodes = state  # one index for both
        return BatchLoads(nodes, self._of(1, source.original(neighbourhood.edges)) if loading.edge else TableLoad(NO_ROWS), state)

    def _of(self, table: int, ids: Int32) -> TableLoad:
        slots, compressed = self.slots[table], self._loading.compressed
        if not self._retained:
            return _load_fixed(ids, self._slots[table], slots, compressed)
        once, index = unique_ids(ids) if compressed else (ids, None)
        load = _load_changing(self._retained[table], once, slots)
        return load if index is None or load.at is None else load._replace(at=load.at[index])


def _load_changing(retained: RetainedRows, ids: Int32, slots: int) -> TableLoad:
    """Plan the transfer of a batch where the cache changes: rows that stay cached from now on are sent once, before the other misses."""
    slot, (arriving, kept_slots) = retained.slots[ids], retained.next()
    place = np.searchsorted(arriving, ids)
    new = (slot < 0) & (np.append(arriving, -1)[place] == ids)
    others = _locate(ids[~new], slot[~new], slots + arriving.size)
    assert others.at is not None
    at = slots + place
    at[~new] = others.at
    return TableLoad(np.concatenate([arriving, others.send]), at, kept_slots)


def _slot_of_rows(cached: Int32, rows: int) -> Int64 | None:
    """Return the slot of each row, int64 [rows], -1 for none; None where nothing is cached."""
    if not cached.size:
        return None
    slots, full = np.full(rows, -1, np.int64), np.flatnonzero(cached >= 0)
    slots[cached[full]] = full
    return slots


def _load_fixed(ids: Int32, slot: Int64 | None, slots: int, compressed: bool) -> TableLoad:
    """Work out what is sent of rows ids [n] of a table, of which those with a slot lie on the device; these never change."""
    if slot is not None and slots == slot.size:  # all of them may be there: then there is nothing to compress
        compressed = compressed and bool((slot[ids] < 0).any())
    if not compressed:
        return TableLoad(ids) if slot is None else _locate(ids, slot[ids], slots)
    once, index = unique_ids(ids)
    if slot is None:
        return TableLoad(once, index)
    placed = _locate(once, slot[once], slots)
    assert placed.at is not None
    return placed._replace(at=placed.at[index])


def _locate(ids: Int32, slot: Int64, slots: int) -> TableLoad:
    missing = slot < 0
    return TableLoad(ids[missing], np.where(missing, slots - 1 + np.cumsum(missing), slot))
