"""Presampling: batches are sampled before they are trained on, to see which rows they will ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows, RowFrequencies
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.event_numbers import EventNumbers

BatchNegatives = Callable[[EventNumbers], Int32]  # negatives [B] or [B, k] of the events of a batch


def sample_batches(
    source: IndexedStream, assignment: BatchAssignment, sampling: Sampling, negatives: BatchNegatives, seed: int, ranks: range | None = None
) -> Iterator[tuple[int, Neighbourhood]]:
    """Sample the neighbourhoods of an assignment's batches that have events, one by one, each with its number, iteration x ranks + rank:
    before training, to plan or to fill caches. ranks: whose batches, None: all. negatives(events): gives those of a batch's events."""
    for iteration in range(assignment.iterations):
        before = assignment.all_events(iteration).start
        for rank in ranks or range(assignment.ranks):
            if own := assignment.rank_events(iteration, rank):
                roots = source.roots(own, negatives(own), before, sampling.sources)
                sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed)
                yield iteration * assignment.ranks + rank, sampled


def rows_by_batch(
    source: IndexedStream, assignment: BatchAssignment, sampling: Sampling, negatives: BatchNegatives, seed: int, rank: int
) -> list[CachedRows]:
    """Sample all batches of one rank before an epoch begins and return, for each, the different nodes and events that it reads,
    ascending."""
    return [
        distinct_rows(sampled, source)
        for _, sampled in sample_batches(source, assignment, sampling, negatives, seed, range(rank, rank + 1))
    ]


def distinct_rows(sampled: Neighbourhood, source: IndexedStream) -> CachedRows:
    """Return the different nodes and events that a sampled batch reads, events by their numbers in the whole stream; ascending."""
    return CachedRows(unique_ids(sampled.nodes)[0], source.original(unique_ids(sampled.edges)[0]))


def rows_by_hop(sampled: Neighbourhood, source: IndexedStream) -> Iterator[CachedRows]:
    """Yield the different nodes that a sampled batch reads, and then the different events of each hop: FAST's public code counts an event
    once for every hop that reads it. Numbers as of `distinct_rows`."""
    yield CachedRows(unique_ids(sampled.nodes)[0], np.empty(0, np.int32))
    for tree in sampled.trees:
        for hop in tree.hops:
            yield CachedRows(np.empty(0, np.int32), source.original(unique_ids(sampled.edges[hop.edge[hop.there]])[0]))


def count_rows(batches: Iterable[CachedRows], nodes: int, events: int) -> RowFrequencies:
    """Count in how many of the sampled batches each of `nodes` nodes and each of `events` events is read, by which a device's cache is
    filled (FAST, Algorithm 1, lines 1 to 5)."""
    frequencies = RowFrequencies(np.zeros(nodes, np.int32), np.zeros(events, np.int32))
    for batch in batches:
        frequencies.nodes[batch.nodes] += 1
        frequencies.edges[batch.edges] += 1
    return frequencies
