"""Presampled: batches that are sampled before they are trained on, to see what they will ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from chronoscale.batching.streams.caching.loading import Cached, Frequencies
from chronoscale.batching.streams.ranks.assignment import Deal
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.spans import Events

Others = Callable[[Events], Int32]  # nodes [B] or [B, k] that the events of a batch are told from


def sampled(
    source: Source, deal: Deal, sampling: Sampling, others: Others, seed: int, ranks: range | None = None
) -> Iterator[tuple[int, Neighbourhood]]:
    """Batches that have events, of these ranks (None: all), each with its number, iteration x ranks + rank."""
    for iteration in range(deal.iterations):
        before = deal.together(iteration).start
        for rank in ranks or range(deal.ranks):
            if own := deal.own(iteration, rank):
                roots = source.roots(own, others(own), before, sampling.sources)
                found = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed)
                yield iteration * deal.ranks + rank, found


def asked(source: Source, deal: Deal, sampling: Sampling, others: Others, seed: int, rank: int) -> list[Cached]:
    """The different nodes and events that each of a rank's batches reads, ascending."""
    return [different(found, source) for _, found in sampled(source, deal, sampling, others, seed, range(rank, rank + 1))]


def different(found: Neighbourhood, source: Source) -> Cached:
    """The different nodes of a batch, and its different events by their numbers in the whole stream; ascending."""
    return Cached(unique_ids(found.nodes)[0], source.original(unique_ids(found.edges)[0]))


def frequencies(batches: Iterable[Cached], nodes: int, events: int) -> Frequencies:
    """In how many of the batches each is (FAST, Algorithm 1, lines 1 to 5)."""
    seen = Frequencies(np.zeros(nodes, np.int32), np.zeros(events, np.int32))
    for batch in batches:
        seen.nodes[batch.nodes] += 1
        seen.edges[batch.edges] += 1
    return seen
