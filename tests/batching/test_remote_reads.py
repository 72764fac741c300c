"""What is counted of a spread stream's batches, against sets of their nodes."""

from __future__ import annotations

import numpy as np
import pytest

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol

RANKS, SIZE = 3, 40
DATA = PreparedStream.of(EventStream.from_blocks(list(RandomStream(60, 900, 300, source_skew=0.9, destination_skew=0.9))), Protocol())


@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize(
    "spread",
    [StreamDistribution("", newest=False), StreamDistribution("shared-nodes"), StreamDistribution("shared-nodes", 0.1, newest=False)],
)
def test_each_rank_computes_the_ends_of_its_own_events(spread: StreamDistribution, validates: bool) -> None:
    """Once each; where the newest of all ranks' counts, an iteration's ends are computed once in all."""
    spreading = DistributedStream(DATA, spread, RANKS)
    work = spreading.work(validates, SIZE, Sampling((5,)), 0, 1, False)
    part = DATA.split.validation if validates else range(DATA.training_events)
    allotment, stream = spreading.assignment(part, SIZE, validates=validates), DATA.whole.stream
    home = None if allotment.parts is None else allotment.parts.node
    ends = {(i, rank): set(stream.src[own]) | set(stream.dst[own])
            for i in range(allotment.iterations) for rank in range(RANKS) for own in [allotment.rank_events(i, rank)]}  # fmt: skip
    for i in range(allotment.iterations):
        found = work.computed.reshape(-1, RANKS)[i]
        together = set.union(*(ends[i, rank] for rank in range(RANKS)))
        if home is None:
            assert found.tolist() == [len(ends[i, rank]) for rank in range(RANKS)]
        elif spread.newest:
            assert found.sum() == len(together) and all(found[rank] <= len(ends[i, rank]) for rank in range(RANKS))
        else:
            shared = [sum(home[node] < 0 for node in ends[i, rank]) for rank in range(RANKS)]
            assert work.shared.reshape(-1, RANKS)[i].tolist() == shared
            assert found.sum() == sum(shared) + sum(home[node] >= 0 for node in together)
    assert np.array_equal(work.sent.reshape(-1, RANKS).sum(1), work.come.reshape(-1, RANKS).sum(1))
