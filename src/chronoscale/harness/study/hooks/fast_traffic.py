"""Traffic: rows of features that strategies send over an epoch, all of them counted in one pass over its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows, Loading, RowFrequencies
from chronoscale.batching.streams.caching.resident_rows import NO_ROWS
from chronoscale.batching.streams.caching.retained_rows import RetainedRows
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.harness.study.hooks.fast_epochs import Asked, Epoch
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.models import FP32
from chronoscale.strategies.streams.placements import PLACEMENTS
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper

NONE = CachedRows(NO_ROWS, NO_ROWS)
INDEX = 8  # bytes of a number that says where a row is read


@dataclass(frozen=True, slots=True)
class Sent:
    """Features that a strategy copies from host to device in an epoch, as counted for FAST's Figure 8.

    nodes, edges: rows of node and of event features, of `width` bytes. numbers: positions copied beside them, which say where rows are read
    and which cache slots they go to. compressed: ids that the host looked through for repeated ones.
    """

    nodes: int
    edges: int
    numbers: int
    compressed: int
    width: int

    @property
    def bytes(self) -> int:
        """Return the bytes of features that are copied from host to device in an epoch."""
        return (self.nodes + self.edges) * self.width

    @property
    def indices(self) -> int:
        """Return the bytes of positions that are copied beside the features."""
        return self.numbers * INDEX


class Table(Protocol):
    """Interface of a cache of one feature table, whose misses `traffic` counts batch after batch for FAST's Figure 8."""

    def sends(self, requested: Asked) -> tuple[int, bool, int]:
        """Return of the next batch: rows copied to the device, whether each was copied once only, and rows newly cached from now on.

        requested: the rows that the batch reads.
        """
        ...


class Fixed:
    """Cache whose rows never change, for the counts of FAST's Figure 8.

    resident: ids of cached rows, int32, of `rows` in all. compressed: whether a batch's missing rows are copied once each; they are not
    where all rows are cached.
    """

    def __init__(self, resident: Int32, rows: int, compressed: bool) -> None:
        self._missing = np.ones(rows, np.bool_)
        self._missing[resident] = False
        self._compressed = compressed and resident.size < rows

    def sends(self, requested: Asked) -> tuple[int, bool, int]:
        missing = self._missing[requested.once]
        return int(np.count_nonzero(missing) if self._compressed else requested.times[missing].sum()), self._compressed, 0


class Changing:
    """Cache whose rows change from batch to batch, planned from all batches in advance (SIMPLE), for the counts of FAST's Figure 8.

    batches: different row ids of each batch. rows: of the table; slots: of the cache. compressed: whether missing rows are copied once
    each.
    """

    def __init__(self, batches: Sequence[Int32], rows: int, slots: int, compressed: bool) -> None:
        self._retained, self._compressed = RetainedRows(batches, rows, slots), compressed

    def sends(self, requested: Asked) -> tuple[int, bool, int]:
        missing = self._retained.slots[requested.once] < 0
        come, _ = self._retained.next()
        if self._compressed:
            return int(np.count_nonzero(missing)), True, come.size
        rest = missing & ~np.isin(requested.once, come)  # what is kept from now on is sent once
        return int(come.size + requested.times[rest].sum()), False, come.size


def loading(strategy_name: str, ratio: float, width: int, presample: int = EventHyper().presample) -> Loading:
    """Return how a strategy loads features, for FAST's Figure 8: each row once a batch or not, by which cache, in how much room.

    strategy_name: such as 'fast'. ratio: share of the features that is cached. width: features a row, of nodes and events alike. presample:
    batches that the cache is filled by. Models have no node memory.
    """
    chosen = strategy(strategy_name)
    assert isinstance(chosen, StreamStrategy)
    feeding: StreamFeeding = chosen.feeding
    return Loading(feeding.compressed, PLACEMENTS.get(feeding.placement), ratio, presample, width * FP32, width * FP32)


def traffic(epoch: Epoch, ways: Mapping[str, Loading], seen: RowFrequencies) -> dict[str, Sent]:
    """Count the features that each way of loading copies to the device in an epoch, exactly, in one pass for all, for FAST's Figure 8.

    ways: label -> way of loading. seen: how often rows were read, by which caches are filled. Equals `PreparedStream.work`'s counts. Takes
    a second pass over the batches, and their different rows in memory, where a cache changes from batch to batch.
    """
    resident = {name: way.placement.fill(seen, way.room(*epoch.sizes)) if way.placement else NONE for name, way in ways.items()}
    changing = {name for name, way in ways.items() if way.placement is not None and way.placement.dynamic}
    requested = [CachedRows(nodes.once, edges.once) for nodes, edges in epoch.batches()] if changing else []
    tables: dict[str, list[Table]] = {}
    for name, way in ways.items():
        of = zip(resident[name], epoch.sizes, (0, 1), strict=True)
        tables[name] = [
            Changing([batch[n] for batch in requested], rows, ids.size, way.compressed)
            if name in changing
            else Fixed(ids, rows, way.compressed)
            for ids, rows, n in of
        ]
    sums: dict[str, Int64] = {name: np.zeros(4, np.int64) for name in ways}
    for batch in epoch.batches():
        slots = [int(part.times.sum()) for part in batch]
        for name in ways:
            (nodes, shrunk, remaining), (edges, slim, stay) = (table.sends(part) for table, part in zip(tables[name], batch, strict=True))
            indexed = shrunk or resident[name].nodes.size or name in changing
            sums[name] += nodes, edges, slots[0] * bool(indexed) + remaining + stay, slots[0] * shrunk + slots[1] * slim
    counts = {name: [int(count) for count in sent] for name, sent in sums.items()}
    return {name: Sent(nodes, edges, numbers, looked, ways[name].node) for name, (nodes, edges, numbers, looked) in counts.items()}
