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
    told = draw(st.lists(st.integers(0, NODES - 1), min_size=len(part), max_size=len(part)))
    return source, part, np.array(told, np.int32)[:, None], draw(st.integers(0, begin))


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


def unrolled(stream, found, tree, sampling, level, target, limit):
    """What the tree holds below a target, with every row looked up: node, and of each slot event, elapsed time and what is below it;
    asserts that it is what the stream has there. limit: (time, since, before) of the target."""
    node = int(found.nodes[tree.levels[level][target]])
    if level == len(sampling.fanouts):
        return (node,)
    (time, since, before), hop, slots = limit, tree.hops[level], []
    for k in np.flatnonzero(hop.there[target]):
        event = int(found.edges[hop.edge[target, k]])
        assert hop.elapsed[target, k] == np.float32(time - stream.t[event])
        below = unrolled(stream, found, tree, sampling, level + 1, hop.slot[target, k], (stream.t[event], since, event))
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
    source, part, told, before = batch
    stream, roots = source.stream, source.roots(part, told, before)
    found = sample(source.tcsr, stream.t, roots, sampling, seed=3)
    assert len(found.trees) == sampling.windows
    expected = [*stream.src[part.start : part.stop], *stream.dst[part.start : part.stop], *told[:, 0]]
    times, trees = np.tile(stream.t[part.start : part.stop], 3), []
    for number, tree in enumerate(found.trees):
        assert [level.dtype for level in tree.levels] == [np.int64] * (len(sampling.fanouts) + 1)
        assert found.nodes[tree.levels[0]].tolist() == expected
        limits = [(time, *bounds(stream, time, before, sampling)[number]) for time in times.tolist()]
        trees.append([unrolled(stream, found, tree, sampling, 0, root, limit) for root, limit in enumerate(limits)])
        for hop, below in zip(tree.hops, tree.levels[1:], strict=True):
            assert len(below) >= 1 and (hop.slot >= 0).all() and (hop.slot < len(below)).all()  # also in slots that are not there
            assert np.isfinite(hop.elapsed).all() and ((hop.edge < max(len(found.edges), 1)) & (hop.edge >= 0)).all()
    assert (found.edges < before).all()  # nothing of the batch itself, at any hop
    return found, trees


def filled(found):
    """Slots of all trees and hops that are there."""
    return sum(np.count_nonzero(hop.there) for tree in found.trees for hop in tree.hops)


@given(batches(), samplings)
def test_every_slot_leads_where_the_stream_does(batch, sampling):
    found, _ = checked(batch, sampling)
    hops = [hop for tree in found.trees for hop in tree.hops]
    levels = [level for tree in found.trees for level in tree.levels]
    named = np.concatenate([found.nodes[level] for level in levels])
    if sampling.unique:
        assert found.nodes.tolist() == sorted(set(named.tolist()))
        events = np.concatenate([found.edges[hop.edge[hop.there]] for hop in hops] or [found.edges])
        assert found.edges.tolist() == sorted(set(events.tolist()))
        for tree in found.trees:
            last = tree.levels[-1]
            assert not tree.hops or len(set(last.tolist())) == len(last)  # a node once
    else:  # a row a slot
        assert len(found.edges) == filled(found) and len(found.nodes) == sum(map(len, levels))
        for tree in found.trees:
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
    found = sample(source.tcsr, stream.t, roots, Sampling((9,), windows=2, duration=2.0))
    held = [found.edges[tree.hops[0].edge[0][tree.hops[0].there[0]]].tolist() for tree in found.trees]
    assert held == [[1, 2], [3, 4]]
    assert [tree.hops[0].elapsed[0][:2].tolist() for tree in found.trees] == [[4.0, 3.0], [2.0, 1.0]]


def test_a_batch_that_nothing_came_before():
    source = source_of([(0, 1, 0), (1, 2, 0)])
    for unique in (False, True):
        found, _ = checked((source, range(2), np.array([[6], [6]], np.int32), 0), Sampling((2, 2), unique=unique))
        assert filled(found) == 0 and not len(found.edges) and [len(level) for level in found.trees[0].levels] == [6, 1, 1]


def test_an_index_of_another_stream_is_refused():
    one, other = source_of([(0, 1, 0), (1, 2, 1)]), source_of([(0, 1, 0)] * 5)
    with pytest.raises(UserError, match=r"^T-CSR of 7 nodes and 10 entries for a stream of 7 nodes and 2 events; it is of another one$"):
        IndexedStream(one.stream, other.tcsr)
