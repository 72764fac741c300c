"""Loading of feature rows to a device: each row as often as it is sampled or once a batch, less those that lie there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from chronoscale.datasets.arrays import Int32


class CachedRows(NamedTuple):
    """Rows of features in a device's cache: nodes int32 [Cn] and events int32 [Ce], one for each slot of the cache, -1 for an empty
    slot."""

    nodes: Int32
    edges: Int32


class RowFrequencies(NamedTuple):
    """How often rows of features are read, by which a device's cache is filled: the number of presampled batches that read each node, int32
    [N], and each event, int32 [M]."""

    nodes: Int32
    edges: Int32


class CacheCapacity(NamedTuple):
    """Capacity of a device's cache of feature rows: `total` bytes, and the bytes of a row of a node and of an event; 0 where there are no
    such rows."""

    total: int
    node: int
    edge: int


class CachePlacement(Protocol):
    """Policy that chooses which rows of features a device's cache has. dynamic: they change from batch to batch, for which an epoch's
    batches are sampled before it begins."""

    @property
    def name(self) -> str: ...

    @property
    def dynamic(self) -> bool: ...

    def fill(self, frequencies: RowFrequencies, room: CacheCapacity) -> CachedRows:
        """Choose the row in each slot of the cache when training begins, from how often rows are read and how much room there is."""
        ...


@dataclass(frozen=True, slots=True)
class Loading:
    """Settings of how rows of features are copied to a device for the batches of an event stream.

    compressed: a row is copied once a batch, and an index repeats it on the device (FAST, section 4.2); else once for each slot of the
    sampled neighbourhood that reads it.

    placement: which rows are cached on the device; None: none. ratio: the largest share of the bytes of all rows of features that they may
    take. presample: batches that are sampled before training, evenly over an epoch, to find the rows that are read often. node, edge: bytes
    of a row of features, 0 where the model reads none. memory: whether rows of node memory are read, too. validated: whether an epoch ends
    with the events that validate. first_half: in place of `presample` batches, those of the first half of the training events are sampled
    before training, as FAST's public code does.
    """

    compressed: bool = False
    placement: CachePlacement | None = None
    ratio: float = 0.0
    presample: int = 1
    node: int = 0
    edge: int = 0
    memory: bool = False
    validated: bool = True
    first_half: bool = False

    def __str__(self) -> str:
        """Return the text in keys of counts on disk, some of which are older than `first_half`."""
        return repr(self).replace(", first_half=False", "")

    def room(self, nodes: int, events: int) -> CacheCapacity:
        """Return the capacity of a device's cache on a stream of `nodes` nodes and `events` events."""
        total = nodes * self.node + events * self.edge
        return CacheCapacity(round(self.ratio * total) if self.placement else 0, self.node, self.edge)
