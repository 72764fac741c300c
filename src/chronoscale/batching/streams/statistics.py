"""What planning needs of a stream: how much the sampler finds for each batch, counted in one pass and kept with the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.caching.residents import Residents
from chronoscale.batching.streams.counts import Counts
from chronoscale.batching.streams.partitioning.partition import Parts
from chronoscale.batching.streams.ranks.assignment import Deal
from chronoscale.batching.streams.ranks.delivery import delivered
from chronoscale.batching.streams.ranks.placement import Spread
from chronoscale.batching.streams.ranks.remote_reads import SpreadStatistics
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.presampling import Others, asked, sampled
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class BatchStatistics(Counts):
    """One entry a batch, rank by rank of each iteration: int64 [B]; [B, n] where there is one of n levels or hops.

    All trees of a batch are added up. A batch without events has nothing.
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
    """A stream on several ranks, as planners see it (`ranks.distributed_stream.Spreading`)."""

    @property
    def parts(self) -> Parts | None:
        """The part of each node and event; None where every rank has all of the stream."""

    def work(self, validates: bool, size: int, sampling: Sampling, limit: int, every: int, edges: bool) -> SpreadStatistics:
        """Count the batches of the part that trains or validates."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamStatistics:
    """Of a stream and its split. training, validation: events of each part; node_width, edge_width: of features, 0 without any; classes: of
    labels that are predicted, 0 where none are.

    spreading(spread, ranks, variant): the stream on several ranks; None where its events are not at hand.

    events: of all parts. work(validates, ranks, batch_size, sampling, limit, every, loading): of the batches of a part, as `Deal` deals
    them.
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
    spreading: Callable[[Spread, int, str], Distributed] | None = None
    span: float = 0.0  # from the first event to the last


def counted(source: Source, deal: Deal, sampling: Sampling, others: Others, seed: int, resident: Residents) -> BatchStatistics:
    """Of a deal's batches: the sampler goes over all of them, around the roots that `sampling` asks for. resident: before the first."""
    events, hops = source.stream, len(sampling.fanouts)
    count = deal.iterations * deal.ranks
    made = BatchStatistics.zeros(count, hops)
    for iteration in range(deal.iterations):
        together = deal.together(iteration)
        last = last_events(events.src[together.start : together.stop], events.dst[together.start : together.stop])[1] + together.start
        mailed = delivered(source, together, sampling.delivers).nodes.size if sampling.delivers else last.size
        for rank in range(deal.ranks):
            at, own = iteration * deal.ranks + rank, deal.own(iteration, rank)
            made["events"][at], made["written"][at], made["mailed"][at] = len(own), last.size, mailed
            made["updated"][at] = np.count_nonzero((last >= own.start) & (last < own.stop))
    for rank in range(deal.ranks):  # one after another: what changes on a device is a table of all rows
        device = resident.following(asked(source, deal, sampling, others, seed, rank)) if resident.ahead else resident
        for at, found in sampled(source, deal, sampling, others, seed, range(rank, rank + 1)):
            made["roots"][at] = found.trees[0].levels[0].size
            made["targets"][at] = sum(np.array([level.size for level in tree.levels]) for tree in found.trees)
            if hops:
                made["sampled"][at] = sum(np.array([np.count_nonzero(hop.there) for hop in tree.hops]) for tree in found.trees)
            made["nodes"][at], made["edges"][at] = found.nodes.size, found.edges.size
            made["unique_nodes"][at] = found.nodes.size if sampling.unique else unique_ids(found.nodes)[0].size
            made["unique_edges"][at] = found.edges.size if sampling.unique else unique_ids(found.edges)[0].size
            loads = device.load(found, source)
            made["sent_nodes"][at], made["sent_edges"][at], made["state"][at] = (load.send.size for load in loads)
            made["index"][at] = loads.numbers
            for name, load in (("kept_nodes", loads.nodes), ("kept_edges", loads.edges)):
                made[name][at] = 0 if load.kept is None else load.kept.size
    return BatchStatistics(**made)


def last_events(src: Int32, dst: Int32) -> tuple[Int32, Int64]:
    """Nodes of a batch's events [B], ascending, int32 [U], and the place in 0 .. B - 1 of the last event of each, int64 [U]."""
    ends = np.stack([src, dst], axis=1).ravel()
    nodes, place = unique_ids(ends)
    last = np.empty(nodes.size, np.int64)
    last[place] = np.arange(ends.size) // 2  # of several the last one stays
    return nodes, last
