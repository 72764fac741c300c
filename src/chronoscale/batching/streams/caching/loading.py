"""Loading of feature rows to a device: each row as often as it is sampled or once a batch, less those that lie there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from chronoscale.datasets.arrays import Int32


class CachedRows(NamedTuple):
    """Rows of features in a device's cache: nodes int32 [Cn] and events int32 [Ce], in each slot one, -1 for none."""

    nodes: Int32
    edges: Int32


class RowFrequencies(NamedTuple):
    """Frequencies of rows: in how many of the presampled batches each node, int32 [N], and each event, int32 [M], is."""

    nodes: Int32
    edges: Int32


class CacheCapacity(NamedTuple):
    """Capacity of a cache: bytes in all, and of a row of a node and of an event; 0 where there are no such rows."""

    total: int
    node: int
    edge: int


class CachePlacement(Protocol):
    """Policy that chooses the rows in a device's cache. dynamic: they change from batch to batch, and an epoch's batches are sampled before
    it begins."""

    @property
    def name(self) -> str: ...

    @property
    def dynamic(self) -> bool: ...

    def fill(self, frequencies: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """Choose the rows that each slot has when training begins."""
        ...


@dataclass(frozen=True, slots=True)
class Loading:
    """How rows of features come to a device.

    compressed: a row crosses the bus once a batch, and an index repeats it on the device (FAST, section 4.2); else a row a slot.

    placement: which rows the device holds; None: none. ratio: the share that they may have of the bytes of all rows of features.
    presample: batches that are sampled before training, evenly over an epoch, to see which rows are asked for often. node, edge: bytes of
    a row of features, 0 where the model reads none. memory: whether rows of node memory are read, too. validated: whether an epoch ends
    with the events that validate.
    """

    compressed: bool = False
    placement: CachePlacement | None = None
    ratio: float = 0.0
    presample: int = 1
    node: int = 0
    edge: int = 0
    memory: bool = False
    validated: bool = True

    def room(self, nodes: int, events: int) -> CacheCapacity:
        """Return the capacity of a cache on a stream of so many nodes and events."""
        total = nodes * self.node + events * self.edge
        return CacheCapacity(round(self.ratio * total) if self.placement else 0, self.node, self.edge)
