"""What lies on a device: rows are read where they are, and no choice of what stays has more hits."""

from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_case import stream

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, Loading, RowFrequencies
from chronoscale.batching.streams.caching.resident_rows import ResidentRows
from chronoscale.batching.streams.caching.retained_rows import RetainedRows
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling import presampling
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.presampling import count_rows
from chronoscale.datasets.streams.draws import derive_key
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.strategies.streams.placements import PLACEMENTS, Even, Greedy, NodesFirst, Retained

NODES, EVENTS = 9, 30
SOURCE = IndexedStream(stream(nodes=NODES, events=EVENTS), TCSR.of(stream(nodes=NODES, events=EVENTS)))
ids = lambda rows: st.lists(st.integers(0, rows - 1), max_size=12).map(lambda drawn: np.array(drawn, np.int32))  # noqa: E731
sampled = st.lists(st.tuples(ids(NODES), ids(EVENTS)), min_size=1, max_size=6)


def batches(drawn):
    return [CachedRows(*(np.unique(part) for part in one)) for one in drawn]


@given(sampled, st.booleans(), st.sampled_from([None, *PLACEMENTS]), st.floats(0, 1), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_every_row_is_read_where_it_is(drawn, compressed, name, ratio, node, edge, memory):
    """A device that holds its cache and gets what is sent has the rows of every batch, in their order."""
    placement = PLACEMENTS[name] if name else None
    loading, tables = Loading(compressed, placement, ratio, 1, node, edge, memory), (100 + np.arange(NODES), 1000 + np.arange(EVENTS))
    room, seen = loading.room(NODES, EVENTS), count_rows(batches(drawn), NODES, EVENTS)
    cached = placement.fill(seen, room) if placement else CachedRows(np.empty(0, np.int32), np.empty(0, np.int32))
    assert (
        cached.nodes.size * node + cached.edges.size * edge <= room.total == (round(ratio * (NODES * node + EVENTS * edge)) if name else 0)
    )
    residents = ResidentRows(loading, cached, NODES, EVENTS)
    assert residents.ahead is (name == "retained")
    if residents.ahead:
        residents = residents.for_epoch(batches(drawn))
    device = [np.where(rows >= 0, table[rows], -1) if rows.size else table[:0] for table, rows in zip(tables, cached, strict=True)]
    for one in drawn:
        loads = residents.load(Neighbourhood(*one, []), SOURCE)
        for which, (load, size) in enumerate(((loads.nodes, node), (loads.edges, edge))):
            wanted = one[which] if size else one[which][:0]
            came = tables[which][load.send]
            beside = np.concatenate([device[which], came])
            np.testing.assert_array_equal(came if load.at is None else beside[load.at], tables[which][wanted])
            assert not compressed or load.send.size == np.unique(load.send).size
            if load.kept is not None:
                device[which][load.kept] = came[: load.kept.size]
                assert np.unique(load.kept).size == load.kept.size
        state = tables[0][loads.state.send]
        np.testing.assert_array_equal(
            state if loads.state.at is None else state[loads.state.at], tables[0][one[0] if memory else one[0][:0]]
        )
        indices = {id(load.at): load.at.size for load in (loads.nodes, loads.state) if load.at is not None}
        slots = [load.kept.size for load in (loads.nodes, loads.edges) if load.kept is not None]
        assert loads.numbers == sum(indices.values()) + sum(slots)


def most_hits(asked: list[frozenset[int]], room: int) -> int:
    """By trying every content of the cache after every batch."""

    @lru_cache(None)
    def hits(at: int, held: frozenset[int]) -> int:
        if at == len(asked):
            return 0
        there = held | asked[at]
        kept = [frozenset(some) for size in range(room + 1) for some in combinations(sorted(there), size)]
        return len(held & asked[at]) + max(hits(at + 1, some) for some in kept)

    return hits(0, frozenset())


@given(st.lists(st.frozensets(st.integers(0, 5), max_size=4), min_size=1, max_size=5), st.integers(0, 4))
def test_no_other_choice_keeps_more_that_is_asked_for_again(asked, room):
    rows = [np.array(sorted(one), np.int32) for one in asked]
    retention, hits = RetainedRows(rows, 6, room), 0
    for one in rows:
        there = retention.slots[one] >= 0
        hits += int(there.sum())
        come, slot = retention.next()
        held = retention.slots[retention.slots >= 0]
        assert held.size == np.unique(held).size <= room and (held < room).all()
        assert np.isin(come, one[~there]).all() and (retention.slots[come] == slot).all()
    assert hits == most_hits(asked, room)


def test_frequencies_count_batches_and_not_rows():
    seen = count_rows(
        [CachedRows(np.array([1, 2], np.int32), np.array([0], np.int32)), CachedRows(np.array([2], np.int32), np.array([], np.int32))], 4, 2
    )
    assert seen.nodes.tolist() == [0, 1, 2, 0] and seen.edges.tolist() == [1, 0]


SEEN = RowFrequencies(np.array([5, 0, 3, 2], np.int32), np.array([4, 3, 0, 1, 3], np.int32))


@pytest.mark.parametrize(
    ("placement", "room", "nodes", "edges"),
    [
        (Greedy(), CacheCapacity(5, 1, 1), [0, 2], [0, 1, 4]),  # Algorithm 1: of those alike events first
        (Greedy(), CacheCapacity(4, 1, 1), [0], [0, 1, 4]),
        (Greedy(), CacheCapacity(8, 2, 1), [0, 2], [0, 1, 4]),  # by bytes
        (Greedy(), CacheCapacity(3, 0, 1), [], [0, 1, 4]),
        (Greedy(), CacheCapacity(3, 1, 0), [0, 2, 3], []),
        (Greedy(), CacheCapacity(0, 1, 1), [], []),
        (Even(), CacheCapacity(4, 1, 1), [0, 2], [0, 1]),
        (Even(), CacheCapacity(9, 1, 1), [0, 2, 3, 1], [0, 1, 4, 3, 2]),
        (Even(), CacheCapacity(8, 1, 1), [0, 2, 3, 1], [0, 1, 4, 3]),
        (NodesFirst(), CacheCapacity(5, 1, 1), [0, 2, 3, 1], [0]),
        (NodesFirst(), CacheCapacity(5, 2, 1), [0, 2], [0]),
        (NodesFirst(), CacheCapacity(2, 0, 1), [], [0, 1]),
        (Retained(), CacheCapacity(6, 1, 1), [-1] * 4, [-1] * 2),
        (Retained(), CacheCapacity(5, 2, 2), [-1] * 2, []),
    ],
)
def test_placements(placement, room, nodes, edges):
    found = placement.fill(SEEN, room)
    assert (found.nodes.tolist(), found.edges.tolist()) == (nodes, edges)
    assert found.nodes.dtype == found.edges.dtype == np.int32


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=7),
    st.lists(st.integers(0, 6), min_size=1, max_size=7),
    st.integers(0, 14),
)
def test_the_greedy_split_is_the_best_one_of_what_was_seen(nodes, edges, room):
    """Of rows of one size, in the batches that were counted; what later ones ask for is another matter."""
    seen = RowFrequencies(np.array(nodes, np.int32), np.array(edges, np.int32))
    found = Greedy().fill(seen, CacheCapacity(room, 1, 1))
    assert found.nodes.size + found.edges.size == min(room, len(nodes) + len(edges))
    hits = seen.nodes[found.nodes].sum() + seen.edges[found.edges].sum()
    best = [
        sum(sorted(nodes)[::-1][:count]) + sum(sorted(edges)[::-1][: max(room - count, 0)]) for count in range(min(room, len(nodes)) + 1)
    ]
    assert hits == max(best)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_each_rank_keeps_what_it_will_ask_for_itself(ranks):
    """What is counted of a changing cache, against rows kept batch by batch, of one rank after another."""
    data, sampling = PreparedStream.of(stream(events=80), Protocol()), Sampling((3,), unique=False)
    loading = Loading(False, Retained(), 0.3, 1, 4, 4)
    found = data.work(False, ranks, 5, sampling, 0, 1, loading)
    deal, drawn = data.assignment(False, ranks, 5), (data.negatives_of(False, 0, 0), derive_key(0, 0))
    for rank in range(ranks):
        own = list(presampling.sample_batches(data.training, deal, sampling, *drawn, range(rank, rank + 1)))
        empty = loading.placement.fill(count_rows([], 9, 80), loading.room(9, 80))
        retention = [RetainedRows([np.unique(getattr(one, which)) for _, one in own], rows, room.size)
                     for which, rows, room in zip(("nodes", "edges"), (9, 80), empty, strict=True)]  # fmt: skip
        for at, one in own:
            for which, kept, table in (("nodes", "kept_nodes", retention[0]), ("edges", "kept_edges", retention[1])):
                ids = getattr(one, which)
                missing = ids[table.slots[ids] < 0]
                come, _ = table.next()
                assert getattr(found, kept)[at] == come.size
                assert getattr(found, f"sent_{which}")[at] == come.size + np.count_nonzero(~np.isin(missing, come))
    assert found.kept_edges.any() and found.kept_nodes.any()


def test_what_does_not_run_is_not_sampled_beforehand():
    data, sampling = PreparedStream.of(stream(events=80), Protocol()), Sampling((3,))
    with_validation, without = (data.row_frequencies(1, 5, sampling, 0, 1000, validated).nodes.sum() for validated in (True, False))
    assert with_validation > without == data.work(False, 1, 5, sampling).unique_nodes.sum()
