"""Deals of events to ranks: every event once, in order, whatever the ranks."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.errors import UserError

parts = st.builds(lambda first, count: range(first, first + count), st.integers(0, 30), st.integers(0, 60))
counts = st.integers(1, 9)


@given(parts, counts, counts)
def test_every_event_once_and_in_order(part, ranks, size):
    deal = BatchAssignment(part, ranks, size)
    dealt = [list(deal.rank_events(i, rank)) for i in range(deal.iterations) for rank in range(ranks)]
    assert list(chain(*dealt)) == list(part)
    assert deal.iterations == -(-len(part) // (ranks * size)) and deal.batches == sum(map(bool, dealt))
    assert all(len(own) == size for own in dealt[: deal.batches - 1]) and not any(dealt[deal.batches :])
    np.testing.assert_array_equal(deal.sizes().ravel(), [len(own) for own in dealt])
    assert deal.sizes().shape == (deal.iterations, ranks) and deal.sizes().dtype == np.int64


@given(parts, counts, counts, st.integers(0, 5), counts)
def test_ranks_are_one_with_a_larger_batch(part, ranks, size, limit, every):
    several, alone = BatchAssignment(part, ranks, size, limit, every), BatchAssignment(part, 1, ranks * size, limit, every)
    assert several.iterations == alone.iterations
    for i in range(several.iterations):
        whole = several.all_events(i)
        assert whole == alone.all_events(i) == alone.rank_events(i, 0)
        assert list(chain(*(several.rank_events(i, rank) for rank in range(ranks)))) == list(whole)


@given(parts, counts, counts, st.integers(0, 5), counts)
def test_some_iterations_of_all(part, ranks, size, limit, every):
    full, some = BatchAssignment(part, ranks, size), BatchAssignment(part, ranks, size, limit, every)
    kept = [full.all_events(i) for i in range(full.iterations)][: limit or None][::every]
    assert [some.all_events(i) for i in range(some.iterations)] == kept
    assert some.batches == sum(-(-len(whole) // size) for whole in kept)


@pytest.mark.parametrize("wrong", [{"ranks": 0}, {"size": 0}, {"every": 0}, {"limit": -1}])
def test_counts_that_cannot_be(wrong):
    with pytest.raises(UserError, match="batches need ranks, events and a stride of at least 1"):
        BatchAssignment(range(9), **{"ranks": 1, "size": 1, **wrong})
