"""Interface of partitioners: what they are asked to cut, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from chronoscale.datasets.arrays import Bool, Float64, Int32, release
from chronoscale.datasets.streams.events import EventStream

BLOCK = 1 << 20  # events that are read at a time
BATCH, NEIGHBOURS = 600, 10  # of training, where nothing says how it will be
EmitParts = Callable[[Int32], object]  # takes the parts of the next events


class EventBlock(NamedTuple):
    """Block of consecutive events of a stream that is partitioned. time float64, counted from the stream's first event."""

    src: Int32
    dst: Int32
    time: Float64


@dataclass(frozen=True, slots=True, eq=False)
class PartitionRequest:
    """Request to a `Partitioner` to cut an event stream into `count` parts. shared bool [N]: nodes that all parts have. decay: how fast
    attention to past events fades, by the stream's unit of time. seed: of what is random. batch: events a part in a batch of training, and
    neighbours: latest events of a node that it reads, for partitioners that count what is read."""

    stream: EventStream
    count: int
    shared: Bool
    decay: float
    seed: int
    batch: int = BATCH
    neighbours: int = NEIGHBOURS

    def blocks(self) -> Iterator[EventBlock]:
        """Yield all events of the stream, in order, a block at a time. Pages of a mapped stream are given back to the system after each
        block, so that memory does not grow."""
        stream = self.stream
        for begin in range(0, len(stream), BLOCK):
            part = slice(begin, begin + BLOCK)
            yield EventBlock(stream.src[part], stream.dst[part], elapsed_time(stream, part))
            for column in (stream.src, stream.dst, stream.t):
                release(column)


class Partitioner(Protocol):
    """Function that assigns an event stream's events and nodes to parts: it calls `put` with the parts of the events, block after block,
    and returns those of the nodes, int32 [N], SHARED for one that all parts have."""

    def __call__(self, request: PartitionRequest, put: EmitParts) -> Int32: ...


def elapsed_time(stream: EventStream, part: slice) -> Float64:
    """Return the times of the events `part` of a stream since its first event, float64: exact differences, whatever clock they are of."""
    time = stream.t[part]
    if time.dtype == np.int64:  # a difference may need 64 bits
        return (time.view(np.uint64) - stream.t[:1].view(np.uint64)).astype(np.float64)
    with np.errstate(over="ignore"):  # who reads them refuses what is not finite
        return np.asarray(time - stream.t[:1], np.float64)
