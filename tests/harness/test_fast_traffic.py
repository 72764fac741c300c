"""FAST's Figure 8: what is counted in one pass is what planners count and what sets of rows say; the best split is the best of all."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_epoch import BATCH, tiny

from chronoscale.batching.streams.caching.loading import CacheCapacity, RowFrequencies
from chronoscale.batching.streams.caching.resident_rows import NO_ROWS
from chronoscale.batching.streams.sampling.presampling import count_rows
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING
from chronoscale.harness.study.hooks.fast_traffic import Sent, loading, traffic
from chronoscale.harness.study.hooks.fast_volumes import Split, best, chosen, seconds
from chronoscale.strategies.streams.placements import Even, Greedy

NAMES = ("tgl", "etc", "taser", "simple", "fast", "fast-compressed", "fast-cached", "fast-even")
counts = st.lists(st.integers(0, 5), min_size=1, max_size=8).map(lambda drawn: np.array(drawn, np.int32))


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7, 1.0])
def test_one_pass_counts_what_the_planner_counts(ratio: float) -> None:
    one = tiny()
    ways = {name: loading(name, ratio, 3, presample=4) for name in NAMES}
    moved = traffic(one, ways, one.data.row_frequencies(1, BATCH, SAMPLING, 0, 4))
    for name, way in ways.items():
        work = one.data.work(False, 1, BATCH, SAMPLING, loading=way)
        expected = work.sent_nodes.sum(), work.sent_edges.sum(), work.index.sum()
        assert (moved[name].nodes, moved[name].edges, moved[name].numbers) == expected, name
        assert moved[name].bytes == 12 * (work.sent_nodes + work.sent_edges).sum()


def test_rows_entry_by_entry() -> None:
    """Compression and a cache, of ids in plain sets."""
    one = tiny()
    seen = one.data.row_frequencies(1, BATCH, SAMPLING, 0, 4)
    ways = {name: loading(name, 0.3, 1) for name in ("tgl", "taser", "fast", "fast-compressed")}
    moved = traffic(one, ways, seen)
    resident = {name: way.placement.fill(seen, way.room(*one.sizes)) if way.placement else (NO_ROWS, NO_ROWS) for name, way in ways.items()}
    for name, once in (("tgl", False), ("taser", False), ("fast", True), ("fast-compressed", True)):
        sent = [0, 0]
        for batch in one.neighbourhoods():
            for table, ids in enumerate((batch.nodes.tolist(), batch.edges.tolist())):
                missing = [row for row in ids if row not in set(resident[name][table].tolist())]
                sent[table] += len(set(missing)) if once else len(missing)
        assert (moved[name].nodes, moved[name].edges) == tuple(sent)
    assert moved["tgl"].bytes > moved["fast-compressed"].bytes > moved["fast"].bytes > 0


def test_the_last_whole_batch_is_the_epochs() -> None:
    one = tiny()
    events, sampled = one.last()
    assert len(one.deal.part) % BATCH, "a part of a batch follows"
    assert events == one.deal.all_events(one.deal.iterations - 2)
    np.testing.assert_array_equal(sampled.nodes, list(one.neighbourhoods())[-2].nodes)
    np.testing.assert_array_equal(sampled.edges, list(one.neighbourhoods())[-2].edges)


def test_what_is_looked_through_for_repetitions() -> None:
    """Nothing without compression, nothing where all rows are there, else every id."""
    one = tiny()
    ids = sum(batch.nodes.size + batch.edges.size for batch in one.neighbourhoods())
    seen = one.data.row_frequencies(1, BATCH, SAMPLING, 0, 4)
    looked = traffic(one, {f"{name} {ratio}": loading(name, ratio, 1) for name in ("taser", "fast") for ratio in (0.5, 1)}, seen)
    assert [sent.compressed for sent in looked.values()] == [0, 0, ids, 0]


def test_what_is_presampled_is_the_epochs() -> None:
    """All of it: training and validation; and what placements are filled by is what `residents` has."""
    one = tiny()
    every = one.data.row_frequencies(1, BATCH, SAMPLING, 0, 10**6)
    training = count_rows((type(every)(a.once, b.once) for a, b in one.batches()), *one.sizes)
    assert all((part >= trained).all() for part, trained in zip(every, training, strict=True))
    assert every.edges.sum() > training.edges.sum()
    way = loading("fast", 0.4, 2, presample=5)
    resident = one.data.residents(1, BATCH, SAMPLING, 0, way)
    expected = Greedy().fill(one.data.row_frequencies(1, BATCH, SAMPLING, 0, 5), way.room(*one.sizes))
    for ours, theirs in zip(resident.cached, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(counts, counts, st.data(), st.integers(0, 30), st.integers(0, 3), st.integers(0, 3))
def test_the_best_split_by_brute_force(nodes, edges, data, total, node, edge) -> None:
    real = RowFrequencies(*(data.draw(st.permutations(part.tolist())) for part in (nodes, edges)))
    real, seen, room = (
        RowFrequencies(*(np.array(part, np.int32) for part in real)),
        RowFrequencies(nodes, edges),
        CacheCapacity(total, node, edge),
    )
    order = [np.argsort(-part, kind="stable") for part in seen]
    fits = [
        (sum(real.nodes[order[0][:n]]) + sum(real.edges[order[1][:e]]), n, e)
        for n, e in product(range(len(nodes) * bool(node) + 1), range(len(edges) * bool(edge) + 1))
        if n * node + e * edge <= total
    ]
    choice = best(seen, real, room)
    assert choice.hits == max(hits for hits, _, _ in fits)
    assert choice.nodes * node + choice.edges * edge <= total
    for placement in (Greedy(), Even()):
        assert chosen(placement, seen, real, room).hits <= choice.hits


@given(counts, counts, st.integers(0, 16))
def test_greedy_is_best_on_what_it_has_seen(nodes, edges, total) -> None:
    """Where rows are of one size."""
    seen, room = RowFrequencies(nodes, edges), CacheCapacity(total, 1, 1)
    assert chosen(Greedy(), seen, seen, room).hits == best(seen, seen, room).hits


def test_a_split_in_figures() -> None:
    seen, real = RowFrequencies(np.array([3, 1], np.int32), np.array([2, 2, 0], np.int32)), None
    real = RowFrequencies(np.array([1, 9], np.int32), np.array([4, 5, 7], np.int32))
    assert best(seen, real, CacheCapacity(2, 1, 1)) == Split(2, 0, 10)
    assert chosen(Greedy(), seen, real, CacheCapacity(2, 1, 1)) == Split(1, 1, 5)


def test_seconds_of_what_is_sent() -> None:
    sent = Sent(nodes=10, edges=20, numbers=5, compressed=400, width=100)
    assert sent.bytes == 3000 and sent.indices == 40
    as_kept = {name: getattr(sent, name) for name in ("bytes", "indices", "compressed")}
    assert seconds(as_kept, gather=1000, look=100, bus=500) == pytest.approx(3 + 3040 / 500 + 4)
