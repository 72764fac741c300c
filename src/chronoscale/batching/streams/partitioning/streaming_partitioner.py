"""Streaming partitioner: parts from one pass over the events, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.partitioning.partitioner import EmitParts, PartitionRequest
from chronoscale.cuda_ext.scheduling.event_partitioner import UNSEEN, EventPartitioner, Rule
from chronoscale.datasets.arrays import Int32


@dataclass(frozen=True, slots=True)
class StreamingPartitioner:
    """Partitioner of an event stream in one pass over its events, by a rule (a `Partitioner`).

    attention: MemShare's (§3.2), around nodes that all parts share. average: DisTGL's temporal-aware edge streaming (Fang et al., DASFAA
    2024).

    Of DisTGL MemShare says that it streams edges by neighbour counts and the parts' average timestamps, with load balance γ = 1.5 (§5.4,
    §6); the paper is not at hand. Assumed: the score is 1 + the events that both ends have in a part, × what room it has left, 1 - load /
    (γ · mean load), × how close its average timestamp comes to that of all events (`EventPartitioner.start`). Memory: 8 N P bytes and a
    block of events. Nodes without events get part `node % P` in the end.
    """

    rule: Rule

    def __call__(self, request: PartitionRequest, put: EmitParts) -> Int32:
        partitioner = EventPartitioner.start(request.shared, request.count, request.decay if self.rule == "attention" else 0.0, self.rule)
        for block in request.blocks():
            put(partitioner.assign(*block))
        idle = np.flatnonzero(partitioner.node == UNSEEN)
        partitioner.node[idle] = idle % request.count
        return partitioner.node
