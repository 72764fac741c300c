"""Distributed stream: a prepared stream on several ranks, with its partition, batches, negatives and work."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.stream_partition import describe_training, partition_stream
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.local_negatives import WeightVariant, local_training_negatives
from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics, count_distributed_batches
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.arrays import Bool, Float32, Int32, Int64
from chronoscale.datasets.streams import draws

PARTS = "parts"


@dataclass(frozen=True, eq=False)
class DistributedStream:
    """Prepared event stream on `ranks` ranks: its partition, each rank's batches, negatives and counts. spread: settings of how it is
    distributed, over each group of ranks alike; variant: of the weights of local negatives. Partitions and counts are saved in the prepared
    folder, if there is one."""

    data: PreparedStream
    spread: StreamDistribution
    ranks: int
    variant: str = "exact"
    _found: dict[int, Int32] = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Number of ranks in a group, which together have the whole stream. Raises UserError as `StreamDistribution.members`."""
        return self.spread.members(self.ranks)

    @cached_property
    def parts(self) -> EventPartition | None:
        """Partition of the stream, made or read when first asked for; None where every rank has all of it. Raises UserError as
        `partition_stream`."""
        distribution, data = self.spread, self.data
        if not distribution.policy:
            return None
        folder = None
        if data.folder is not None:
            training = describe_training(distribution.policy, distribution.batch, distribution.neighbours)
            key = f"{self.members} {distribution.policy} {distribution.shared} {distribution.decay}{training}"
            folder = data.folder / PARTS / sha256(key.encode()).hexdigest()[:16]
        shared = distribution.shared if self.members > 1 else 0.0  # with nobody
        settings = distribution.policy, shared, distribution.decay, data.protocol.seed, data.split.train_end
        return partition_stream(data.whole.stream, self.members, *settings, folder, distribution.batch, distribution.neighbours)

    def source(self, validates: bool) -> IndexedStream:
        """Return the stream that batches are sampled from: all events for validation, those without hidden nodes for training."""
        return self.data.whole if validates else self.data.training

    def assignment(self, part: range, size: int, limit: int = 0, every: int = 1, validates: bool = False) -> RankAssignment:
        """Assign the events `part` to ranks in batches of `size` events: those of training by their own numbers, others by those of the
        whole stream. limit: iterations at most, 0: all; every: only one iteration of so many."""
        deal = BatchAssignment(part, self.ranks, size, limit, every)
        return RankAssignment(deal, self.parts_of(validates), validates, self.ranks // self.members)

    def parts_of(self, validates: bool) -> EventPartition | None:
        """Return the partition of the stream that batches are sampled from (`source`), with its numbers of events; None where every rank
        has all of it."""
        return self.parts if validates else self._trained

    @cached_property
    def _trained(self) -> EventPartition | None:
        if self.parts is None or (numbers := self.source(False).numbers) is None:
            return self.parts
        return replace(self.parts, event=np.ascontiguousarray(self.parts.event[numbers]))

    def local_part(self, validates: bool, rank: int) -> LocalPart | None:
        """Return the part that a rank samples from, for training or validation; None where it has all of the stream."""
        parts = self.parts_of(validates)
        return None if parts is None else LocalPart(parts, rank % self.members)

    def here(self, rank: int) -> Bool:
        """Return which nodes' rows a rank has: a mask, bool [N]."""
        if self.parts is None:
            return np.ones(self.data.whole.stream.num_nodes, np.bool_)
        return self.parts.here(rank % self.members)

    def negatives(self, events: Int64, rank: int, epoch: int, seed: int, remote: float | None = None) -> tuple[Int32, Float32 | None]:
        """Draw the negative destinations of a rank's training events in an epoch, [B, 1], and their weights in the loss, [B, 1] (None: 1);
        [B, 0] for a task without negatives.

        remote: the probability of drawing from all destinations, in place of the distribution's.
        """
        data, remote = self.data, self.spread.remote if remote is None else remote
        if remote >= 1 or self.parts is None or data.protocol.task == "node":
            return data.negatives_of_training(events, epoch, seed), None
        dst, local = np.asarray(data.training.stream.dst[events]), self._local(rank)
        variant: WeightVariant = "as-published" if self.variant == "as-published" else "exact"
        return local_training_negatives(dst, events, data.among, local, remote, seed=seed, epoch=epoch, variant=variant)

    def _local(self, rank: int) -> Int32:
        """Return the destinations that a rank has, ascending, int32."""
        part = rank % self.members
        if part not in self._found:
            self._found[part] = self.data.among[self.here(part)[self.data.among]]
        return self._found[part]

    def work(self, validates: bool, size: int, sampling: Sampling, limit: int, every: int, edges: bool) -> DistributedStatistics:
        """Count the rows that ranks' batches of the training or validation events read of each other, for planners, as the first epoch of
        the protocol's seed draws them; counted once, then read from the cache. size: events a batch; limit: iterations at most, 0: all;
        every: only one iteration of so many; edges: whether a model reads features of sampled events."""
        data = self.data
        part = data.split.validation if validates else range(data.training_events)
        assignment = self.assignment(part, size, limit, every, validates)
        ranks = self.ranks if self.spread.groups == 1 else f"{self.ranks // self.members} groups of {self.members}"
        key = f"spread cached {validates} {ranks} {size} {sampling} {limit} {every} {self.spread} {edges}"
        return data.cache.counts(
            key, assignment.iterations * self.ranks, DistributedStatistics, lambda: self._count(assignment, validates, sampling, edges)
        )

    def _count(self, assignment: RankAssignment, validates: bool, sampling: Sampling, edges: bool) -> DistributedStatistics:
        data, seed = self.data, self.data.protocol.seed

        fixed_negatives = data.negatives_of(validates, 0, seed)

        def others(events: Int64, rank: int) -> Int32:
            return fixed_negatives(events) if validates else self.negatives(events, rank, 0, seed)[0]

        sampling_seed = draws.derive_key(seed, draws.FIXED_EPOCH if validates else 0)
        return count_distributed_batches(self.source(validates), assignment, self.spread, sampling, others, sampling_seed, edges)
