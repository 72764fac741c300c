"""Placements: which rows of node and event features a device caches, by the name that a schedule gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, CachePlacement, RowFrequencies
from chronoscale.datasets.arrays import Int32


def most_frequent(frequency: Int32, room: int, size: int) -> Int32:
    """Return the feature rows to cache on the device: those read most often that fit `room` bytes, int32 row numbers by falling frequency.

    frequency: int32 [rows], how often each row is read; size: bytes of a row (0: nothing is cached).
    """
    count = room // size if size else 0
    return np.argsort(-frequency, kind="stable")[:count].astype(np.int32)


@dataclass(frozen=True, slots=True)
class NodesFirst:
    """Cache policy of TASER (FAST §6.3): a static cache on the device of the most frequent node rows, then of event rows in the room that
    is left."""

    name: ClassVar[str] = "nodes-first"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        nodes = most_frequent(seen.nodes, room.total, room.node)
        return CachedRows(nodes, most_frequent(seen.edges, room.total - nodes.size * room.node, room.edge))


@dataclass(frozen=True, slots=True)
class Retained:
    """Cache policy of SIMPLE (FAST §6.3): rows on the device change from batch to batch; an epoch is sampled ahead, and rows stay between
    two uses.

    Nodes have the room first. Which rows stay is chosen optimally (`batching.streams.caching.retained_rows`), where SIMPLE's greedy choice
    is within a factor of it: SIMPLE moves no fewer bytes than this.
    """

    name: ClassVar[str] = "retained"
    dynamic: ClassVar[bool] = True

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """Return the cache's slots on the device, empty (-1): they are filled while batches pass. seen: how often presampled batches read
        each row; room: the cache's bytes."""
        nodes = min(seen.nodes.size, room.total // room.node) if room.node else 0
        edges = min(seen.edges.size, (room.total - nodes * room.node) // room.edge) if room.edge else 0
        return CachedRows(np.full(nodes, -1, np.int32), np.full(edges, -1, np.int32))


@dataclass(frozen=True, slots=True)
class Greedy:
    """Cache policy of FAST's SlimCache (Algorithm 1): a static cache on the device of rows of either table by falling frequency while they
    fit, events first among equals.

    A row saves its bytes in each batch that reads it and takes the same bytes of room, so that only the frequency decides, also where node
    and event rows differ in width; the algorithm as printed counts rows in place of bytes.
    """

    name: ClassVar[str] = "greedy"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        events = seen.edges if room.edge else seen.edges[:0]
        nodes = seen.nodes if room.node else seen.nodes[:0]
        order = np.argsort(-np.concatenate([events, nodes]), kind="stable")
        edges = order < events.size
        fits = np.cumsum(np.where(edges, room.edge, room.node)) <= room.total
        return CachedRows((order[fits & ~edges] - events.size).astype(np.int32), order[fits & edges].astype(np.int32))


@dataclass(frozen=True, slots=True)
class Even:
    """Cache policy of FAST's Figure 5b: a static cache on the device, split in half between node and event rows; what one cannot use goes
    to the other."""

    name: ClassVar[str] = "even"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        half = room.total // 2
        edges = seen.edges.size * room.edge
        nodes = most_frequent(seen.nodes, max(half, room.total - edges), room.node)
        return CachedRows(nodes, most_frequent(seen.edges, room.total - nodes.size * room.node, room.edge))


PLACEMENTS: Mapping[str, CachePlacement] = {placement.name: placement for placement in (NodesFirst(), Retained(), Greedy(), Even())}
