"""Placements: which rows of node and event features a device caches, by the name that a schedule gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, CachePlacement, RowFrequencies
from chronoscale.datasets.arrays import Int32


def most_frequent(frequency: Int32, room: int, size: int) -> Int32:
    """Return the rows of one table, of `size` bytes each, that are read most often and fit `room` bytes.

    int32 row numbers by falling frequency; none where `size` is 0. `frequency` int32 [rows]: how often each row is read.
    """
    count = room // size if size else 0
    return np.argsort(-frequency, kind="stable")[:count].astype(np.int32)


@dataclass(frozen=True, slots=True)
class NodesFirst:
    """A static cache of the most frequent node rows, then of event rows in the room that is left (TASER; FAST §6.3)."""

    name: ClassVar[str] = "nodes-first"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        nodes = most_frequent(seen.nodes, room.total, room.node)
        return CachedRows(nodes, most_frequent(seen.edges, room.total - nodes.size * room.node, room.edge))


@dataclass(frozen=True, slots=True)
class Retained:
    """A cache whose rows change from batch to batch: an epoch is sampled ahead, and rows are kept between two uses (SIMPLE; FAST §6.3).

    Nodes have the room first. Which rows stay is chosen optimally (`batching.streams.caching.retained_rows`), where SIMPLE's greedy choice
    is within a factor of it: SIMPLE moves no fewer bytes than this.
    """

    name: ClassVar[str] = "retained"
    dynamic: ClassVar[bool] = True

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """Return the cache's slots, empty (-1): they are filled while batches pass."""
        nodes = min(seen.nodes.size, room.total // room.node) if room.node else 0
        edges = min(seen.edges.size, (room.total - nodes * room.node) // room.edge) if room.edge else 0
        return CachedRows(np.full(nodes, -1, np.int32), np.full(edges, -1, np.int32))


@dataclass(frozen=True, slots=True)
class Greedy:
    """SlimCache's static cache: rows of either table by falling frequency while they fit, events first among equals (FAST, Algorithm 1).

    A row saves its bytes in each batch that reads it and takes the same bytes of room, so that the frequency alone decides, also where
    node and event rows differ in width; the algorithm as printed counts rows in place of bytes.
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
    """A static cache split in half between node and event rows; what one cannot use goes to the other (FAST, Figure 5b)."""

    name: ClassVar[str] = "even"
    dynamic: ClassVar[bool] = False

    def fill(self, seen: RowFrequencies, room: CacheCapacity) -> CachedRows:
        half = room.total // 2
        edges = seen.edges.size * room.edge
        nodes = most_frequent(seen.nodes, max(half, room.total - edges), room.node)
        return CachedRows(nodes, most_frequent(seen.edges, room.total - nodes.size * room.node, room.edge))


PLACEMENTS: Mapping[str, CachePlacement] = {placement.name: placement for placement in (NodesFirst(), Retained(), Greedy(), Even())}
