"""Neighbourhoods of batches, against a search through the list of all events."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_search import NODES, earlier, source_of, sources

from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling, sample
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


@st.composite
def batches(draw):
    """A source, and a batch of its events with what they are told from."""
    source = draw(sources)
    begin = draw(st.integers(0, len(source.stream) - 1))
    part = range(begin, draw(st.integers(begin + 1, min(begin + 6, len(source.stream)))))
    negatives = draw(st.lists(st.integers(0, NODES - 1), min_size=len(part), max_size=len(part)))
    return source, part, np.array(negatives, np.int32)[:, None], draw(st.integers(0, begin))


samplings = st.builds(
    lambda fanouts, windows, unique, policy: Sampling(fanouts, policy, *windows, unique),
    st.sampled_from([(), (2,), (4,), (2, 3), (3, 1)]),
    st.sampled_from([(1, 0.0), (1, 2.5), (2, 1.0), (3, 1.75)]),
    st.booleans(),
    st.sampled_from(["recent", "uniform"]),
)


def bounds(stream, time, before, sampling):
    """(since, before) of a root in every window, the oldest first."""
    if sampling.windows == 1 and not sampling.duration:
        return [(0, before)]
    starts = [sum(x < time - k * sampling.duration for x in stream.t.tolist()) for k in range(sampling.windows + 1)]
    ends = [before, *starts[1:]]
    return [(starts[k + 1], min(ends[k], before)) for k in reversed(range(sampling.windows))]


def unrolled(stream, sampled, tree, sampling, level, target, limit):
    """What the tree holds below a target, with every row looked up: node, and of each slot event, elapsed time and what is below it;
    asserts that it is what the stream has there. limit: (time, since, before) of the target."""
    node = int(sampled.nodes[tree.levels[level][target]])
    if level == len(sampling.fanouts):
        return (node,)
    (time, since, before), hop, slots = limit, tree.hops[level], []
    for k in np.flatnonzero(hop.there[target]):
        event = int(sampled.edges[hop.edge[target, k]])
        assert hop.elapsed[target, k] == np.float32(time - stream.t[event])
        below = unrolled(stream, sampled, tree, sampling, level + 1, hop.slot[target, k], (stream.t[event], since, event))
        slots.append((event, below))
    events, every = [event for event, _ in slots], earlier(stream, node, since, before)
    assert [(below[0], event) for event, below in slots] == [one for one in every if one[1] in events]  # in order, each once
    assert len(events) == min(len(every), sampling.fanouts[level]) == np.count_nonzero(hop.there[target])
    assert hop.there[target][: len(events)].all()  # filled slots come first
    if sampling.policy == "recent":
        assert [(below[0], event) for event, below in slots] == every[len(every) - len(events) :]
    return node, slots


def checked(batch, sampling):
    """The whole neighbourhood and its trees, unrolled."""
    source, part, negatives, before = batch
    stream, roots = source.stream, source.roots(part, negatives, before)
    sampled = sample(source.tcsr, stream.t, roots, sampling, seed=3)
    assert len(sampled.trees) == sampling.windows
    expected = [*stream.src[part.start : part.stop], *stream.dst[part.start : part.stop], *negatives[:, 0]]
    times, trees = np.tile(stream.t[part.start : part.stop], 3), []
    for number, tree in enumerate(sampled.trees):
        assert [level.dtype for level in tree.levels] == [np.int64] * (len(sampling.fanouts) + 1)
        assert sampled.nodes[tree.levels[0]].tolist() == expected
        limits = [(time, *bounds(stream, time, before, sampling)[number]) for time in times.tolist()]
        trees.append([unrolled(stream, sampled, tree, sampling, 0, root, limit) for root, limit in enumerate(limits)])
        for hop, below in zip(tree.hops, tree.levels[1:], strict=True):
            assert len(below) >= 1 and (hop.slot >= 0).all() and (hop.slot < len(below)).all()  # also in slots that are not there
            assert np.isfinite(hop.elapsed).all() and ((hop.edge < max(len(sampled.edges), 1)) & (hop.edge >= 0)).all()
    assert (sampled.edges < before).all()  # nothing of the batch itself, at any hop
    return sampled, trees


def filled(sampled):
    """Slots of all trees and hops that are there."""
    return sum(np.count_nonzero(hop.there) for tree in sampled.trees for hop in tree.hops)


@given(batches(), samplings)
def test_every_slot_leads_where_the_stream_does(batch, sampling):
    sampled, _ = checked(batch, sampling)
    hops = [hop for tree in sampled.trees for hop in tree.hops]
    levels = [level for tree in sampled.trees for level in tree.levels]
    named = np.concatenate([sampled.nodes[level] for level in levels])
    if sampling.unique:
        assert sampled.nodes.tolist() == sorted(set(named.tolist()))
        events = np.concatenate([sampled.edges[hop.edge[hop.there]] for hop in hops] or [sampled.edges])
        assert sampled.edges.tolist() == sorted(set(events.tolist()))
        for tree in sampled.trees:
            last = tree.levels[-1]
            assert not tree.hops or len(set(last.tolist())) == len(last)  # a node once
    else:  # a row a slot
        assert len(sampled.edges) == filled(sampled) and len(sampled.nodes) == sum(map(len, levels))
        for tree in sampled.trees:
            for hop, below in zip(tree.hops, tree.levels[1:], strict=True):
                assert len(below) == max(np.count_nonzero(hop.there), 1)


@given(batches(), samplings)
def test_rows_that_stand_once_describe_the_same_trees(batch, sampling):
    of_slots, of_rows = replace(sampling, unique=False), replace(sampling, unique=True)
    (many, expected), (few, trees) = checked(batch, of_slots), checked(batch, of_rows)
    assert trees == expected and filled(few) <= filled(many)  # of targets that are alike slots are filled once
    assert set(many.nodes.tolist()) == set(few.nodes.tolist()) and set(many.edges.tolist()) == set(few.edges.tolist())


def test_windows_of_whole_times_are_exact():
    """Nanoseconds: rounded to float64, times would lie in another window."""
    t = 1_700_000_000_000_000_000 + np.array([0, 1, 2, 3, 4, 5])
    stream = EventStream(2, np.zeros(6, np.int32), np.ones(6, np.int32), t)
    source = IndexedStream(stream, TCSR.of(stream))
    roots = source.roots(range(5, 6), np.empty((1, 0), np.int32), 5)
    sampled = sample(source.tcsr, stream.t, roots, Sampling((9,), windows=2, duration=2.0))
    window_edges = [sampled.edges[tree.hops[0].edge[0][tree.hops[0].there[0]]].tolist() for tree in sampled.trees]
    assert window_edges == [[1, 2], [3, 4]]
    assert [tree.hops[0].elapsed[0][:2].tolist() for tree in sampled.trees] == [[4.0, 3.0], [2.0, 1.0]]


def test_a_batch_that_nothing_came_before():
    source = source_of([(0, 1, 0), (1, 2, 0)])
    for unique in (False, True):
        sampled, _ = checked((source, range(2), np.array([[6], [6]], np.int32), 0), Sampling((2, 2), unique=unique))
        assert filled(sampled) == 0 and not len(sampled.edges) and [len(level) for level in sampled.trees[0].levels] == [6, 1, 1]


def test_an_index_of_another_stream_is_refused():
    one, other = source_of([(0, 1, 0), (1, 2, 1)]), source_of([(0, 1, 0)] * 5)
    with pytest.raises(UserError, match=r"^T-CSR of 7 nodes and 10 entries for a stream of 7 nodes and 2 events; it is of another one$"):
        IndexedStream(one.stream, other.tcsr)
