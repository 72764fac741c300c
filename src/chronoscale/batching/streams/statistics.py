"""Statistics of a stream for planners: how much the sampler finds for each batch, counted in one pass and kept with the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.caching.resident_rows import ResidentRows
from chronoscale.batching.streams.counts import BatchCounts
from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.delivery import deliver_mail
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.presampling import BatchNegatives, rows_by_batch, sample_batches
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics(BatchCounts):
    """Counts, for planners, of what the batches of an event stream read and copy to the device: one entry for each batch, rank by rank of
    each iteration, int64 [B]; `targets` [B, hops + 1] and `sampled` [B, hops] one for each level or hop.

    All trees of a batch are added up. A batch without events reads nothing.
    """

    events: Int64
    roots: Int64
    targets: Int64  # [B, hops + 1]: of every level, as they are gathered
    sampled: Int64  # [B, hops]: filled slots
    nodes: Int64  # rows of node features and memory that are gathered
    edges: Int64  # rows of edge features
    unique_nodes: Int64  # different ones among them
    unique_edges: Int64
    updated: Int64  # nodes whose last event of the iteration is this rank's: rows of memory that it contributes
    written: Int64  # rows of memory that all ranks of the iteration contribute
    mailed: Int64  # mailboxes that the iteration's mails go to
    sent_nodes: Int64  # rows of node features that cross the bus
    sent_edges: Int64  # rows of edge features
    state: Int64  # rows of node memory
    index: Int64  # numbers that say where rows are read on the device, beside those in trees
    kept_nodes: Int64  # rows that a device keeps from this batch on, of a placement that changes
    kept_edges: Int64


class Distributed(Protocol):
    """Interface of an event stream on several ranks, as planners see it (`ranks.distributed_stream.DistributedStream`)."""

    @property
    def parts(self) -> EventPartition | None:
        """Partition of nodes and events over the ranks; None where every rank has all of the stream."""

    def work(self, validates: bool, size: int, sampling: Sampling, limit: int, every: int, edges: bool) -> DistributedStatistics:
        """Count what ranks' batches of the training or validation events read of each other. size: events a batch; limit: iterations at
        most, 0: all; every: only one iteration of so many; edges: whether a model reads features of sampled events."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamStatistics:
    """Counts of an event stream and its split, all that planners need to know of the dataset. training, validation: events of each part;
    node_width, edge_width: of features, 0 without any; classes: of labels that are predicted, 0 where none are; events: of all parts.

    work(validates, ranks, batch_size, sampling, limit, every, loading): counts what the batches of the training or validation events read,
    as `BatchAssignment` has them. spreading(spread, ranks, variant): the stream on several ranks; None where its events are not at hand.
    """

    family: ClassVar[str] = "streams"
    num_nodes: int
    training: int
    validation: int
    node_width: int
    edge_width: int
    classes: int
    events: int
    work: Callable[[bool, int, int, Sampling, int, int, Loading], BatchStatistics]
    spreading: Callable[[StreamDistribution, int, str], Distributed] | None = None
    span: float = 0.0  # from the first event to the last


def count_batches(
    source: IndexedStream, assignment: BatchAssignment, sampling: Sampling, negatives: BatchNegatives, seed: int, resident: ResidentRows
) -> BatchStatistics:
    """Count what an assignment's batches of an event stream read and copy to the device, for planners, by sampling them all.
    negatives(events): gives those of a batch's events; seed: of sampling; resident: the device's cache before the first batch."""
    events, hops = source.stream, len(sampling.fanouts)
    count = assignment.iterations * assignment.ranks
    counts = BatchStatistics.zeros(count, hops)
    for iteration in range(assignment.iterations):
        all_events = assignment.all_events(iteration)
        last = (
            last_events(events.src[all_events.start : all_events.stop], events.dst[all_events.start : all_events.stop])[1]
            + all_events.start
        )
        mailed = deliver_mail(source, all_events, sampling.delivers).nodes.size if sampling.delivers else last.size
        for rank in range(assignment.ranks):
            batch, own = iteration * assignment.ranks + rank, assignment.rank_events(iteration, rank)
            counts["events"][batch] = len(own)
            counts["written"][batch] = last.size
            counts["mailed"][batch] = mailed
            counts["updated"][batch] = np.count_nonzero((last >= own.start) & (last < own.stop))
    for rank in range(assignment.ranks):  # one after another: what changes on a device is a table of all rows
        device = resident.for_epoch(rows_by_batch(source, assignment, sampling, negatives, seed, rank)) if resident.ahead else resident
        for batch, sampled in sample_batches(source, assignment, sampling, negatives, seed, range(rank, rank + 1)):
            counts["roots"][batch] = sampled.trees[0].levels[0].size
            counts["targets"][batch] = sum(np.array([level.size for level in tree.levels]) for tree in sampled.trees)
            if hops:
                counts["sampled"][batch] = sum(np.array([np.count_nonzero(hop.there) for hop in tree.hops]) for tree in sampled.trees)
            counts["nodes"][batch], counts["edges"][batch] = sampled.nodes.size, sampled.edges.size
            counts["unique_nodes"][batch] = sampled.nodes.size if sampling.unique else unique_ids(sampled.nodes)[0].size
            counts["unique_edges"][batch] = sampled.edges.size if sampling.unique else unique_ids(sampled.edges)[0].size
            loads = device.load(sampled, source)
            counts["sent_nodes"][batch], counts["sent_edges"][batch], counts["state"][batch] = (load.send.size for load in loads)
            counts["index"][batch] = loads.numbers
            for name, load in (("kept_nodes", loads.nodes), ("kept_edges", loads.edges)):
                counts[name][batch] = 0 if load.kept is None else load.kept.size
    return BatchStatistics(**counts)


def last_events(src: Int32, dst: Int32) -> tuple[Int32, Int64]:
    """Find the nodes that a batch's events [B] have at their ends, ascending, int32 [U], and the index in the batch (0 .. B - 1) of the
    last event of each, int64 [U]: after it, node memory is updated once."""
    ends = np.stack([src, dst], axis=1).ravel()
    nodes, place = unique_ids(ends)
    last = np.empty(nodes.size, np.int64)
    last[place] = np.arange(ends.size) // 2  # of several the last one stays
    return nodes, last
