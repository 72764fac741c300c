"""A stream on groups of ranks: each group's counts are those of its span on as many ranks without groups."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_case import stream

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import count_distributed_batches
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import UserError

DATA = PreparedStream.of(stream(events=200, nodes=20), Protocol())
parts = st.builds(lambda first, count: range(first, first + count), st.integers(0, 20), st.integers(0, 60))


@given(parts, st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(0, 4), st.integers(1, 3), st.booleans())
def test_every_event_is_of_one_rank(part: range, groups: int, members: int, size: int, limit: int, every: int, whole: bool) -> None:
    """Spans one after another, as equal as they may be; in each, batches in the order of time, and of an iteration each rank its part's."""
    of = np.random.default_rng(size).integers(0, members, part.stop).astype(np.int32)
    made = RankAssignment(
        BatchAssignment(part, groups * members, size, limit, every), EventPartition(np.zeros(3, np.int32), of, members), whole, groups
    )
    bounds = [part.start + len(part) * group // groups for group in range(groups + 1)]
    spans = [list(range(bounds[group], bounds[group + 1])) for group in range(groups)]
    if whole:
        spans = [[]] * (groups - 1) + [list(part)]
    step = members * size
    dealt = [[span[at : at + step] for at in range(0, len(span), step)] for span in spans]
    dealt = [(batches[:limit] if limit else batches)[::every] for batches in dealt]
    assert (made.ranks, made.members, made.iterations) == (groups * members, members, max(map(len, dealt)))
    for i in range(made.iterations):
        batches = [each[i] if i < len(each) else [] for each in dealt]
        assert made.size(i) == sum(map(len, batches)) and list(made.every_rank(i)) == list(chain(*batches))
        for rank in range(made.ranks):
            together = batches[rank // members]
            assert made.rank_events(i, rank).tolist() == [event for event in together if of[event] == rank % members]
            assert list(made.group_events(i, rank)) == together
            assert not together or made.before(i, rank) == together[0]


@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize("delivers", [0, 2])
@pytest.mark.parametrize("newest", [False, True])
def test_a_group_counts_as_its_span_does(validates: bool, delivers: int, newest: bool) -> None:
    groups, members, size = 3, 2, 5
    distribution = StreamDistribution("shared-nodes", 0.2, newest=newest, groups=groups)
    made, sampling = DistributedStream(DATA, distribution, groups * members), Sampling((4,), delivers=delivers)
    plain = DistributedStream(DATA, StreamDistribution("shared-nodes", 0.2, newest=newest), members)
    assert made.parts is not None and plain.parts is not None
    assert np.array_equal(made.parts.node, plain.parts.node) and np.array_equal(made.parts.event, plain.parts.event)
    work = made.work(validates, size, sampling, 0, 1, True)
    part = DATA.split.validation if validates else range(DATA.training_events)
    bounds = [part.start + len(part) * group // groups for group in range(groups + 1)]
    seed, fixed = draws.derive_key(0, draws.FIXED_EPOCH if validates else 0), DATA.negatives_of(validates, 0, 0)
    for group in range(groups):
        span = range(bounds[group], bounds[group + 1])
        if validates:
            span = part if group == groups - 1 else range(part.start, part.start)
        of_span = RankAssignment(BatchAssignment(span, members, size), plain.parts_of(validates))
        expected = count_distributed_batches(
            plain.source(validates), of_span, plain.spread, sampling, lambda events, _: fixed(events), seed, True
        )
        for name in work.__slots__:
            counted = getattr(work, name).reshape(-1, groups, members, *getattr(work, name).shape[1:])[:, group]
            ungrouped = getattr(expected, name).reshape(-1, members, *getattr(expected, name).shape[1:])
            assert np.array_equal(counted[: len(ungrouped)], ungrouped), name
            assert not counted[len(ungrouped) :].any()


def test_how_many_ranks_a_group_has() -> None:
    assert [StreamDistribution(groups=2).members(ranks) for ranks in (1, 2, 4, 6)] == [1, 1, 2, 3]
    assert StreamDistribution().members(6) == 6 and StreamDistribution("").members(6) == 1
    for ranks in (3, 5):
        with pytest.raises(UserError) as error:
            _ = DistributedStream(DATA, StreamDistribution(groups=2), ranks).parts
        assert str(error.value) == f"training.replicas: {ranks} ranks do not make 2 groups; expected a multiple of 2 ranks"
