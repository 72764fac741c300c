"""Remote reads: what the batches of ranks read of each other, counted exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chronoscale.batching.streams.counts import BatchCounts
from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.ranks.contributions import Contributions, compute_contributions
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_row_cache import CacheLookup, RemoteRowCache
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.cuda_ext.scheduling.restream import FetchedRows
from chronoscale.datasets.arrays import Bool, Int64


@dataclass(frozen=True, slots=True, eq=False)
class DistributedStatistics(BatchCounts):
    """Counts, for planners, of what the batches of a distributed stream read of other ranks: one entry for each batch, rank by rank of each
    iteration, int64 [B]; `targets` [B, hops + 1] and `sampled` [B, hops] one for each level or hop.

    events, roots, targets, sampled, nodes, edges: of the batch and what is sampled for it. asked_*, served_*: rows that the rank asks
    others for, and that others ask it for; cached_*: rows of other ranks that it has from earlier (`RemoteRowCache`). Contributions to node
    memory: computed by the rank, sent to other ranks, come from them, and settled in rows that it has; shared: to shared nodes, computed by
    the rank; everywhere: the same by all ranks.
    """

    events: Int64
    roots: Int64
    targets: Int64
    sampled: Int64
    nodes: Int64
    edges: Int64
    asked_nodes: Int64
    asked_edges: Int64
    served_nodes: Int64
    served_edges: Int64
    cached_nodes: Int64
    cached_edges: Int64
    computed: Int64
    sent: Int64
    come: Int64
    settled: Int64
    shared: Int64
    everywhere: Int64


class RowsByOwner:
    """Rows that a rank's batch reads, ordered by the rank that has them: own ones first, then those of other ranks, rank by rank. ids: the
    rows in that order; own: how many are the rank's; counts int64 [ranks]: how many are of each other rank."""

    def __init__(self, ids: np.ndarray, home: np.ndarray, rank: int, ranks: int) -> None:
        """Order rows by owner. ids int32 [U] of rows, home [U]: the rank that has each, or SHARED."""
        away = (home != rank) & (home != SHARED)
        self.order = np.concatenate([np.flatnonzero(~away), np.flatnonzero(away)[np.argsort(home[away], kind="stable")]])
        self.ids = ids[self.order]
        self.counts = np.bincount(home[away], minlength=ranks)
        self.own = int(ids.size - self.counts.sum())

    def missing(self, lookup: CacheLookup | None) -> tuple[np.ndarray, Int64]:
        """Return the rows that the rank asks others for, rank by rank, and how many of each, int64 [ranks].

        lookup: a cache's answer for `asked`, whose misses these are; None: all are.
        """
        if lookup is None:
            return self.asked, self.counts
        owner = np.repeat(np.arange(self.counts.size), self.counts)[~lookup.hit]
        return self.asked[~lookup.hit], np.bincount(owner, minlength=self.counts.size)

    @property
    def asked(self) -> np.ndarray:
        """Ids of the rows that other ranks have, rank by rank."""
        ids: np.ndarray = self.ids[self.own :]
        return ids

    def of_asked(self, values: Bool | None) -> Bool | None:
        """Return what `values` [U], or None, say of the rows that other ranks have, in the order of `asked`."""
        return None if values is None else values[self.order[self.own :]]


def rows_by_owner(
    neighbourhood: Neighbourhood, source: IndexedStream, local_part: LocalPart, edges: bool
) -> tuple[RowsByOwner, RowsByOwner]:
    """Order the rows that a rank's sampled batch reads by the rank that has them: those of nodes, and those of events (edges), by their
    numbers in the whole stream. `edges`: whether a model reads features of events; if not, all are the rank's own."""
    parts, rank = local_part.parts, local_part.rank
    nodes = RowsByOwner(neighbourhood.nodes, parts.node[neighbourhood.nodes], rank, parts.count)
    home = parts.event[neighbourhood.edges] if edges else np.full(neighbourhood.edges.size, rank)
    return nodes, RowsByOwner(source.original(neighbourhood.edges), home, rank, parts.count)


def iteration_contributions(
    source: IndexedStream, assignment: RankAssignment, iteration: int, rank: int, distribution: StreamDistribution, delivers: int
) -> Contributions:
    """Find which contributions to node memory an iteration of a distributed stream makes: those of all ranks of `rank`'s group, which are
    numbered by their parts. delivers: to how many neighbours of an event's ends its mail goes, too (APAN)."""
    whole = assignment.group_events(iteration, rank)
    home = None if assignment.parts is None else assignment.parts.node
    return compute_contributions(source, whole, assignment.part_of(whole), home, distribution.newest, delivers)


def remote_row_cache(source: IndexedStream, assignment: RankAssignment, distribution: StreamDistribution, delivers: int) -> RemoteRowCache:
    """Return an empty cache of other ranks' rows for an assignment's iterations on a rank. delivers: to how many neighbours mail goes."""
    return RemoteRowCache(source, assignment, delivers, distribution.cached_rows)


def look_up(
    cache: RemoteRowCache | None, iteration: int, tables: tuple[RowsByOwner, RowsByOwner], sampled: Neighbourhood
) -> tuple[CacheLookup, CacheLookup] | None:
    """Look up in a cache what a batch of an iteration reads of other ranks, of nodes and of events (`tables`); None without a cache."""
    if cache is None:
        return None
    nodes, events = tables
    return cache.look_up(iteration, nodes.asked, events.asked, nodes.of_asked(sampled.stale))


RankNegatives = Callable[[Int64, int], np.ndarray]  # negatives [B, k] of a rank's events


def count_distributed_batches(
    source: IndexedStream,
    assignment: RankAssignment,
    distribution: StreamDistribution,
    sampling: Sampling,
    negatives: RankNegatives,
    seed: int,
    edges: bool,
) -> DistributedStatistics:
    """Count the rows that the batches of all ranks read of each other, for planners, by sampling them all. negatives(events, rank): gives
    the negatives of a rank's events; seed: of sampling; edges: whether a model reads features of sampled events."""
    hops, ranks, members = len(sampling.fanouts), assignment.ranks, assignment.members
    caching = bool(distribution.cached_rows) and assignment.parts is not None
    caches = [remote_row_cache(source, assignment, distribution, sampling.delivers) for _ in range(ranks)] if caching else []
    counts = DistributedStatistics.zeros(assignment.iterations * ranks, hops)
    for iteration in range(assignment.iterations):
        first = iteration * ranks
        for rank in range(ranks):
            group = slice(first + rank - rank % members, first + rank - rank % members + members)
            if rank % members == 0:
                contributed = iteration_contributions(source, assignment, iteration, rank, distribution, sampling.delivers)
                _count_exchanged(counts, contributed.counts(members), group, distribution.newest)
            if not len(own := assignment.rank_events(iteration, rank)):
                continue
            batch = first + rank
            roots = source.roots(own, negatives(own, rank), assignment.before(iteration, rank), sampling.sources)
            cached = caches[rank].rows(edges) if caching else None
            local_part = None if assignment.parts is None else LocalPart(assignment.parts, rank % members, cached)
            sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed, local_part=local_part)
            counts["events"][batch], counts["roots"][batch] = own.size, sampled.trees[0].levels[0].size
            counts["targets"][batch] = [level.size for level in sampled.trees[0].levels]
            counts["sampled"][batch] = [np.count_nonzero(hop.there) for hop in sampled.trees[0].hops]
            counts["nodes"][batch], counts["edges"][batch] = sampled.nodes.size, sampled.edges.size
            if local_part is not None:
                tables = rows_by_owner(sampled, source, local_part, edges)
                lookups = look_up(caches[rank] if caching else None, iteration, tables, sampled) or (None, None)
                for table_name, table, lookup in zip(("nodes", "edges"), tables, lookups, strict=True):
                    missing, asked = table.missing(lookup)
                    counts[f"asked_{table_name}"][batch] = missing.size
                    counts[f"cached_{table_name}"][batch] = table.asked.size - missing.size
                    counts[f"served_{table_name}"][group] += asked
    return DistributedStatistics(**counts)


def count_fetched_rows(source: IndexedStream, assignment: RankAssignment, fanout: int) -> FetchedRows:
    """Count the rows that batches of ranks fetch of each other for the ends of events and their `fanout` latest neighbours, each once a
    rank's batch, by sampling them all: without negatives, so that partitions are compared by what depends on them. Only for an assignment
    with parts."""
    nodes = events = 0
    assert assignment.parts is not None
    for iteration in range(assignment.iterations):
        for rank in range(assignment.ranks):
            if not (own := assignment.rank_events(iteration, rank)).size:
                continue
            roots = source.roots(own, np.empty((own.size, 0), np.int32), assignment.before(iteration, rank))
            sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, Sampling((fanout,)))
            of_nodes, of_events = rows_by_owner(sampled, source, LocalPart(assignment.parts, rank), True)
            nodes += of_nodes.asked.size
            events += of_events.asked.size
    return FetchedRows(nodes, events)


def _count_exchanged(arrays: dict[str, np.ndarray], counts: Int64, batches: slice, newest: bool) -> None:
    """Add the counts of an iteration's exchanged contributions, from `Contributions.counts` of a group's ranks."""
    shared, placed = counts[:, 0], counts[:, 1:]
    own, settled = placed.diagonal(), placed.sum(0)
    arrays["sent"][batches], arrays["come"][batches] = placed.sum(1) - own, settled - own
    arrays["shared"][batches], arrays["everywhere"][batches] = shared, shared.sum()
    arrays["computed"][batches] = counts.sum(1)
    arrays["settled"][batches] = settled if newest else settled + shared
