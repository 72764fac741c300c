"""BoundaryWeights: how large the weights of remote neighbours become with boundary decay, and what a cap on them costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream

EVENTS = 10_000  # whose ends are looked at


@dataclass(frozen=True, slots=True)
class BoundaryWeights:
    """Weights of the remote neighbours that boundary decay samples of a stream in parts.

    largest: weight in one draw without a cap; 1 without remote neighbours. raised: share of the remote neighbours that are sampled more
    often with the cap, which without it would have larger weights; added: what that adds to those that are sampled, a share of these, in
    expectation.
    """

    largest: float
    raised: float
    added: float

    @classmethod
    def of(cls, source: IndexedStream, parts: EventPartition, settings: Boundary, fanout: int, cap: float) -> BoundaryWeights:
        """Measure the weights of the latest `fanout` neighbours of the ends of up to EVENTS events, evenly over the stream, with settings
        of boundary decay, and what a cap of cap / theta costs."""
        stream = source.stream
        events = np.unique(np.linspace(0, len(stream) - 1, EVENTS).astype(np.int32))
        node, before = np.concatenate([stream.src[events], stream.dst[events]]), np.tile(events, 2)
        rank = parts.event[before][:, None]
        recent = source.tcsr.sample(node, before, fanout)
        event, home = np.maximum(recent.event, 0), parts.node[np.maximum(recent.neighbor, 0)]
        local = (parts.event[event] == rank) & ((home == rank) | (home == SHARED))
        remote = (recent.event >= 0) & ~local
        latest = np.where(remote, event, 0).max(1, initial=0)
        gaps = np.where(remote, stream.t[latest][:, None] - stream.t[event], 0).astype(np.float64)
        share = np.exp(-settings.decay * gaps) * remote
        free = np.minimum(settings.theta * remote.sum(1, keepdims=True) * share / np.maximum(share.sum(1, keepdims=True), 1e-300), 1)[
            remote
        ]
        if not free.size or not settings.theta:
            return cls(1.0, 0.0, 0.0)
        least = replace(settings, cap=cap).least
        plain, largest = replace(settings, cap=0.0, at_least_one=False, stale=False), 1.0
        for one in range(parts.count):
            own = rank[:, 0] == one
            drawn = boundary.sample(source.tcsr, stream.t, LocalPart(parts, one), node[own], before[own], fanout, plain)
            largest = max(largest, float(drawn.weight.max(initial=1)))
        return cls(largest, float((free < least).mean()), float(np.maximum(free, least).sum() / free.sum() - 1))
