"""What is counted of a spread stream's batches, against sets of their nodes."""

from __future__ import annotations

import numpy as np
import pytest
from fetched_rows import fetched_rows

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import count_fetched_rows
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.tcsr import TCSR

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
        computed = work.computed.reshape(-1, RANKS)[i]
        together = set.union(*(ends[i, rank] for rank in range(RANKS)))
        if home is None:
            assert computed.tolist() == [len(ends[i, rank]) for rank in range(RANKS)]
        elif spread.newest:
            assert computed.sum() == len(together) and all(computed[rank] <= len(ends[i, rank]) for rank in range(RANKS))
        else:
            shared = [sum(home[node] < 0 for node in ends[i, rank]) for rank in range(RANKS)]
            assert work.shared.reshape(-1, RANKS)[i].tolist() == shared
            assert computed.sum() == sum(shared) + sum(home[node] >= 0 for node in together)
    assert np.array_equal(work.sent.reshape(-1, RANKS).sum(1), work.come.reshape(-1, RANKS).sum(1))


@pytest.mark.parametrize("policy", ["random", "restream", "shared-nodes"])
@pytest.mark.parametrize(("share", "batch", "fanout"), [(0.0, 7, 2), (0.2, 40, 5)])
def test_rows_that_are_fetched(policy: str, share: float, batch: int, fanout: int) -> None:
    stream = DATA.whole.stream.span(0, 400)
    parts = partition_stream(stream, 3, policy, share)
    assignment = RankAssignment(BatchAssignment(range(400), 3, batch), parts)
    rows = count_fetched_rows(IndexedStream(stream, TCSR.of(stream)), assignment, fanout)
    assert rows == fetched_rows((stream.src, stream.dst), parts.node, parts.event, 3 * batch, fanout) and min(rows) > 0


def test_a_rank_without_events_fetches_nothing() -> None:
    ends = np.arange(4, dtype=np.int32)
    stream = EventStream(4, ends, ends[::-1].copy(), np.arange(4))
    parts = EventPartition(np.zeros(4, np.int32), np.zeros(4, np.int32), 3)
    assignment = RankAssignment(BatchAssignment(range(4), 3, 1), parts)
    assert count_fetched_rows(IndexedStream(stream, TCSR.of(stream)), assignment, 2) == (0, 0)
