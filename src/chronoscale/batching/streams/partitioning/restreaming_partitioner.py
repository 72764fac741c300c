"""Restreaming partitioner: several passes over the events, of which that with the fewest bytes fetched counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from chronoscale.batching.streams.partitioning.partitioner import BLOCK, EmitParts, PartitionRequest
from chronoscale.cuda_ext.scheduling.restream import SHARED, UNSEEN, RestreamPass, RestreamSettings
from chronoscale.datasets.arrays import Int32
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class RestreamingPartitioner:
    """Partitioner of an event stream by what its parts would fetch from each other in training, in several passes over the events in the
    order of time (a `Partitioner`): Fennel's way for cut edges (Tsourakakis et al., WSDM 2014; restreaming: Nishimura and Ugander, KDD
    2013), with fetched rows in their place.

    A pass puts each event where fewest bytes are fetched for it (`RestreamPass.assign`), given where nodes are and which parts read their
    events in the pass before. Then nodes go where their rows are read in most batches (`RestreamPass.homes`). Of all passes the one that
    fetches fewest bytes counts. Events are balanced, in total and in each global batch, within the slack of `settings`; nodes are not.
    Nothing is random. An event may be in a part that has neither of its ends.

    passes: at least 1, else UserError. settings: its batch and fan-out give way to the request's. Memory: N (12 fanout + 36 P) bytes for N
    nodes and P parts, one to four bytes an event, twice, and a block of events. Nodes without events get part `node % P`.
    """

    passes: int = 3
    settings: RestreamSettings = field(default_factory=RestreamSettings)

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise UserError(f"restreaming: {self.passes} passes; expected at least 1")

    def __call__(self, request: PartitionRequest, put: EmitParts) -> Int32:
        settings = replace(self.settings, batch=request.batch, fanout=request.neighbours)
        node = np.where(request.shared, SHARED, UNSEEN).astype(np.int32)
        pull = np.zeros((node.size, request.count))
        fewest, chosen, parts = math.inf, node, _EventParts(request)
        for _ in range(self.passes):
            restreamed = RestreamPass.start(node, pull, settings)
            placed = _EventParts(request)
            for src, dst in _whole_batches(request, request.count * settings.batch):
                placed.put(restreamed.assign(src, dst))
            node, pull = restreamed.homes(), restreamed.next_pull()
            rows = restreamed.fetched(node)
            fetched = rows.nodes * settings.node_bytes + rows.events * settings.event_bytes
            if fetched < fewest:
                fewest, chosen, parts = fetched, node, placed
        parts.emit(put)
        return np.where(chosen == UNSEEN, np.arange(chosen.size) % request.count, chosen).astype(np.int32)


class _EventParts:
    """Parts of a stream's events, each in as few bytes as the number of parts needs."""

    def __init__(self, request: PartitionRequest) -> None:
        self._parts = np.empty(len(request.stream), np.min_scalar_type(request.count - 1))
        self._end = 0

    def put(self, parts: Int32) -> None:
        """Take the parts of the next events."""
        self._parts[self._end : self._end + parts.size] = parts
        self._end += parts.size

    def emit(self, put: EmitParts) -> None:
        """Call `put` with the parts of all events, block after block."""
        for begin in range(0, self._parts.size, BLOCK):
            put(self._parts[begin : begin + BLOCK].astype(np.int32))


def _whole_batches(request: PartitionRequest, size: int) -> Iterator[tuple[Int32, Int32]]:
    """Yield the ends of all events of a stream in order, multiples of `size` events at a time, the rest last."""
    src, dst = np.empty(0, np.int32), np.empty(0, np.int32)
    for block in request.blocks():
        src, dst = np.concatenate([src, block.src]), np.concatenate([dst, block.dst])
        whole = src.size - src.size % size
        yield src[:whole], dst[:whole]
        src, dst = src[whole:], dst[whole:]
    yield src, dst
