"""Splits of a stream in time, and its inductive view, against masks as TGN's and TGB's protocols state them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.splits import EventSplit, hide_nodes, split_by_time
from chronoscale.errors import UserError

N = 12
event_lists = st.lists(st.tuples(st.integers(0, 25), st.integers(0, N - 1), st.integers(0, N - 1)), min_size=3, max_size=60).map(sorted)


def stream(events, dtype=np.int64):
    t, src, dst = (np.array(column) for column in zip(*events, strict=True))
    return EventStream(N, src.astype(np.int32), dst.astype(np.int32), t.astype(dtype))


def split_of(events, **fractions):
    try:
        return split_by_time(events, **fractions)
    except UserError as error:
        assert "events in every part" in str(error)  # coarse times
        assume(False)


@given(event_lists, st.sampled_from([(0.70, 0.15), (0.5, 0.25), (0.25, 0.25)]), st.sampled_from([np.int64, np.float64]))
def test_the_parts_are_those_of_the_quantiles_and_no_time_is_in_two(events, fractions, dtype):
    events = stream(events, dtype)
    split = split_of(events, train=fractions[0], validation=fractions[1])
    parts = (split.train, split.validation, split.test)
    assert [i for part in parts for i in part] == list(range(len(events)))
    early, late = np.quantile(events.t, [fractions[0], fractions[0] + fractions[1]])
    masks = (events.t <= early, (events.t > early) & (events.t <= late), events.t > late)
    for part, mask in zip(parts, masks, strict=True):
        assert_array_equal(list(part), np.flatnonzero(mask))
    times = [set(events.t[list(part)].tolist()) for part in parts]
    assert not times[0] & times[1] and not times[1] & times[2] and not times[0] & times[2]


def test_nanoseconds_are_not_rounded():
    """Times that are one float64 lie on both sides of a boundary."""
    t = 1_700_000_000_000_000_000 + np.arange(101, dtype=np.int64)
    ids = np.zeros(101, np.int32)
    split = split_by_time(EventStream(1, ids, ids, t))
    assert (len(split.train), len(split.validation), len(split.test)) == (71, 15, 15)


@pytest.mark.parametrize("fractions", [(0.0, 0.5), (0.9, 0.1), (0.5, -0.1), (float("nan"), 0.1)])
def test_fractions_that_leave_nothing_are_refused(fractions):
    with pytest.raises(UserError, match="two positive numbers with a sum below 1"):
        split_by_time(stream([(i, 0, 1) for i in range(9)]), *fractions)


def test_a_part_without_events_is_refused():
    with pytest.raises(UserError, match="got 9 to train, 0 to validate, 0 to test"):
        split_by_time(stream([(1, 0, 1)] * 9))
    with pytest.raises(UserError, match="events in every part"):
        EventSplit(3, 3, 9)
    with pytest.raises(UserError, match="without events"):
        split_by_time(stream([(1, 0, 1)]).span(0, 0))


@given(event_lists, st.sampled_from([0.0, 0.1, 0.3]), st.integers(0, 99))
def test_training_sees_no_hidden_node_and_new_nodes_are_those_it_does_not_see(events, share, seed):
    events = stream(events)
    split = split_of(events)
    try:
        view = hide_nodes(events, split, share, seed)
    except UserError as error:
        assert str(error).count("\n") == 0
        assume(False)
    pairs = list(zip(events.src.tolist(), events.dst.tolist(), strict=True))
    hidden, nodes = set(np.flatnonzero(view.hidden).tolist()), {node for pair in pairs for node in pair}
    assert len(hidden) == int(share * len(nodes))
    assert hidden <= {node for pair in pairs[split.train_end :] for node in pair}
    trained = [pair for pair, kept in zip(pairs, view.training, strict=False) if kept]
    assert trained == [pair for pair in pairs[: split.train_end] if not hidden & set(pair)]
    new = nodes - {node for pair in trained for node in pair}
    assert set(np.flatnonzero(view.new).tolist()) == new >= hidden
    for part in (split.validation, split.test):
        assert view.touches(events, part).tolist() == [bool(new & set(pairs[i])) for i in part]


def test_hidden_nodes_are_the_seed_s():
    events = stream([(i, i % N, (i * 5 + 1) % N) for i in range(400)])
    split = split_by_time(events)
    views = [hide_nodes(events, split, 0.3, seed).hidden for seed in (0, 0, 1)]
    with pytest.raises(UserError, match="a seed"):
        hide_nodes(events, split, 0.3, -1)
    assert_array_equal(views[0], views[1])
    assert (views[0] != views[2]).any()


def test_hiding_too_many_nodes_is_refused():
    events = stream([(i, i % N, (i + 1) % N) for i in range(80)] + [(80 + i, 0, 1) for i in range(60)])
    with pytest.raises(UserError, match="3 nodes are to be hidden, only 2 have"):
        hide_nodes(events, split_by_time(events, 0.6, 0.2), 0.3)
    with pytest.raises(UserError, match="leaves no event to train on"):
        hide_nodes(stream([(i, 0, 1) for i in range(20)]), EventSplit(10, 15, 20), 0.5)
    with pytest.raises(UserError, match="the split is of 20 events, the stream has 140"):
        hide_nodes(events, EventSplit(10, 15, 20))
    with pytest.raises(UserError, match="0 or more and below 1"):
        hide_nodes(events, split_by_time(events), 1.0)
