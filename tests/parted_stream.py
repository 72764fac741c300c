"""A stream in parts, and what its ranks fetch, counted one by one in the sampler's output: what MemShare's equation 25 is held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.partitioning.remoteness import COLD, HOT, NEGATIVE, EventNegatives, Remoteness, partition_negatives
from chronoscale.batching.streams.partitioning.stream_partition import default_decay
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics, count_distributed_batches
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.strategies.memshare.communication import Communication, RowBytes

WIDTHS = RowBytes(400, 688, 400)


@dataclass(frozen=True, slots=True)
class PartedStream:
    """A stream in parts, and its batches; `remote`: share of the nodes that negatives are drawn from."""

    source: IndexedStream
    parts: EventPartition
    batch: int
    neighbours: int
    remote: float = 1.0

    @property
    def allotment(self) -> RankAssignment:
        """Which events each rank has in each iteration."""
        return RankAssignment(BatchAssignment(range(len(self.source.stream)), self.parts.count, self.batch), self.parts)

    @property
    def others(self) -> EventNegatives:
        """Negatives of events."""
        return partition_negatives(self.source.stream, self.parts, self.remote)

    def sampling(self, theta: float, unique: bool) -> Sampling:
        """Return how neighbours are sampled."""
        boundary = Boundary(theta, default_decay(self.source.stream))
        return Sampling((self.neighbours,), unique=unique, boundary=boundary)

    def remoteness(self) -> Remoteness:
        """Return what the equation reads of the stream."""
        return Remoteness.of(self.source.stream, self.parts, self.neighbours, self.parts.count * self.batch, self.others)


def slots(of: PartedStream, theta: float, seed: int = 0) -> Remoteness:
    """Count what `Remoteness` has, one by one in the sampler's output; `seed`: of its coins."""
    source, allotment, parts, sampling, others = of.source, of.allotment, of.parts, of.sampling(theta, False), of.others
    totals, ends = np.zeros((5, 3), np.int64), (source.stream.src, source.stream.dst)
    for iteration in range(allotment.iterations):
        for rank in range(parts.count):
            if not (own := allotment.rank_events(iteration, rank)).size:
                continue
            roots = source.roots(own, others(own)[:, None], allotment.before(iteration, rank))
            sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed, local_part=LocalPart(parts, rank))
            tree = sampled.trees[0]
            kind = np.where(parts.node[roots[0]] == SHARED, HOT, COLD)
            kind[2 * own.size :] = NEGATIVE
            there, home = tree.hops[0].there, parts.node[sampled.nodes]
            kinds, slot = kind.repeat(there.sum(1)), home[tree.levels[1][tree.hops[0].slot[there]]]
            totals[0] += np.bincount(kind, minlength=3)
            totals[2] += np.bincount(kinds, minlength=3)
            away = (home[tree.levels[0]] != rank) & (home[tree.levels[0]] != SHARED)
            totals[1] += np.bincount(kind[away], minlength=3)
            totals[3] += np.bincount(kinds[parts.event[sampled.edges[tree.hops[0].edge[there]]] != rank], minlength=3)
            totals[4] += np.bincount(kinds[(slot != rank) & (slot != SHARED)], minlength=3)
    first, second = (parts.node[end] for end in ends)
    cut = int(np.count_nonzero((first != second) & (first != SHARED) & (second != SHARED)))
    return Remoteness(parts.count, len(source.stream), of.neighbours, cut, *totals)


def once(of: PartedStream, theta: float) -> DistributedStatistics:
    """Count what ranks fetch where each row comes once a batch."""
    spread, others = StreamDistribution(newest=True, remote=of.remote), of.others
    return count_distributed_batches(
        of.source, of.allotment, spread, of.sampling(theta, True), lambda events, _: others(events)[:, None], 0, True
    )


def fetched(of: Communication) -> float:
    """Return bytes of events' ends, which is what the equation knows."""
    return of.fetched - of.negatives
