"""Quality of a partition: the load of its parts in each batch, and what they need of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.datasets.arrays import Float64, Int64, release
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

_BLOCK = 1 << 20  # events that are looked at together


@dataclass(frozen=True, slots=True, eq=False)
class PartitionQuality:
    """Quality of a partition of an event stream: loads of its parts and cuts between them, in B global batches, each the consecutive events
    that P ranks train on together.

    loads int64 [B, P]: events of a part. cut int64 [B]: events whose ends have different parts, and neither is shared (MemShare §3.1, λ of
    §4.2). remote int64 [B]: ends of events that the event's part does not have, 0 to 2 an event. nodes int64 [P]: that only one part has;
    shared: that all have.
    """

    loads: Int64
    cut: Int64
    remote: Int64
    nodes: Int64
    shared: int

    @classmethod
    def of(cls, stream: EventStream, parts: EventPartition, batch: int) -> PartitionQuality:
        """Measure the quality of a partition in global batches of parts × `batch` events, the last one as long as it is; the stream is read
        in blocks. Raises UserError for batch < 1 and for a partition of a stream of another size."""
        if batch < 1:
            raise UserError(f"batch: expected at least 1 event a part, got {batch}")
        if (parts.node.size, parts.event.size) != (stream.num_nodes, len(stream)):
            raise UserError(
                f"parts of {parts.node.size} nodes and {parts.event.size} events do not fit '{stream.name}', which has {stream.num_nodes} "
                f"and {len(stream)}"
            )
        size = parts.count * batch
        batches, together = -(-len(stream) // size), max(_BLOCK // size, 1)
        loads = np.zeros((batches, parts.count), np.int64)
        cut = np.zeros(batches, np.int64)
        remote = np.zeros(batches, np.int64)
        for first in range(0, batches, together):
            span = slice(first * size, (first + together) * size)
            part, ends = parts.event[span], [parts.node[end[span]] for end in (stream.src, stream.dst)]
            at, here = np.arange(part.size) // size, slice(first, first + together)
            count = min(together, batches - first)
            loads[here] = np.bincount(at * parts.count + part, minlength=count * parts.count).reshape(count, parts.count)
            apart = (ends[0] != ends[1]) & (ends[0] != SHARED) & (ends[1] != SHARED)
            cut[here] = np.bincount(at[apart], minlength=count)
            for end in ends:
                remote[here] += np.bincount(at[(end != part) & (end != SHARED)], minlength=count)
            for column in (stream.src, stream.dst, parts.event):
                release(column)
        own = np.bincount(parts.node[parts.node != SHARED], minlength=parts.count)
        return cls(loads, cut, remote, own, int(parts.shared.size))

    @property
    def events(self) -> Int64:
        """Number of events of each part, int64 [P]."""
        return np.asarray(self.loads.sum(0), np.int64)

    @property
    def balance(self) -> Float64:
        """Largest load of a part over the mean of the parts (MemShare Figure 2), 1 at best and P at worst, of each global batch: float64
        [B]. The last batch is left out where it is shorter than the first: a few events do not divide."""
        sizes = self.loads.sum(1)
        full = self.loads[sizes == sizes[:1]]
        return np.asarray(full.max(1) / full.mean(1), np.float64)

    @property
    def cut_ratio(self) -> float:
        """Share of all events whose ends lie in two parts, neither end shared; NaN without events."""
        return _share(int(self.cut.sum()), int(self.loads.sum()))

    @property
    def cut_ratios(self) -> Float64:
        """Share of the events of each global batch whose ends lie in two parts, neither end shared: float64 [B]."""
        return np.asarray(self.cut / self.loads.sum(1), np.float64)

    @property
    def remote_ratio(self) -> float:
        """Share of the ends of all events that the event's own part does not have; NaN without events."""
        return _share(int(self.remote.sum()), 2 * int(self.loads.sum()))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
