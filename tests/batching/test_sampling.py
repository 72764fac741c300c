"""Samples of in-neighbours against brute force, and the deals that go with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking, ExpectedChunking
from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts, assign_at_random, sampled_subgraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError

GRAPHS = GrowthGraph.rmat(50, 400, 4, 0.2, 3).sequence().without_self_edges()


@st.composite
def snapshots(draw):
    """Graphs of a few nodes, some without edges, some with self-edges."""
    nodes = draw(st.integers(1, 12))
    ends = st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=60)
    edges = np.array(draw(ends), np.int32).reshape(-1, 2)
    return Snapshot.from_edges(nodes, edges[:, 0], edges[:, 1])


def dense(csr):
    found = np.zeros((len(csr.scale), len(csr.scale)))
    np.add.at(
        found, (np.repeat(np.arange(len(csr.scale)), np.diff(csr.indptr)), csr.indices), csr.values * csr.scale.repeat(np.diff(csr.indptr))
    )
    return found


@given(snapshots(), st.integers(1, 14), st.integers(0, 2**31), st.sampled_from(["exact", "as-published"]))
def test_as_many_as_there_are_up_to_the_fanout(snapshot, fanout, seed, variant):
    """Each once, none that is no neighbour, weighed by d / k; the self-loop as it was."""
    sampling = NeighbourSampling(fanout, seed, 2)
    kept, whole = sampling.edge_mask(snapshot, 1), dense(snapshot.csr(variant))
    taken, found = sampled_subgraph(snapshot, kept), dense(sampling.csr(snapshot, snapshot.csr(variant), kept))
    degree = snapshot.in_degree()
    np.testing.assert_array_equal(np.bincount(snapshot.dst[kept], minlength=snapshot.num_nodes), np.minimum(degree, fanout))
    assert {*zip(taken.src.tolist(), taken.dst.tolist(), strict=True)} <= {*zip(snapshot.src.tolist(), snapshot.dst.tolist(), strict=True)}
    expected = np.zeros_like(whole)
    loops = dense(Snapshot.from_edges(snapshot.num_nodes, snapshot.src, snapshot.dst).csr(variant))
    for v in range(snapshot.num_nodes):
        inside = snapshot.src[(snapshot.dst == v) & kept]
        others = inside[inside != v]
        expected[v, others] = whole[v, others] * degree[v] / min(degree[v], fanout)
        csr = snapshot.csr(variant)
        loop = csr.values[csr.indptr[v]] * csr.scale[v]
        expected[v, v] = loop * (1 + (v in inside) * degree[v] / max(min(degree[v], fanout), 1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert fanout < degree.max(initial=0) or np.allclose(found, loops, rtol=1e-7)


def test_sums_keep_their_expectation():
    """Over many epochs the mean of what is aggregated is the whole sum, within four standard errors; every neighbour is as likely."""
    x, whole = np.random.default_rng(0).standard_normal(50), dense(GRAPHS[1].csr())
    drawings = [NeighbourSampling(3, 1, epoch) for epoch in range(800)]
    draws = np.array([dense(one.csr(GRAPHS[1], GRAPHS[1].csr(), one.edge_mask(GRAPHS[1], 1))) @ x for one in drawings])
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - whole @ x) <= 4 * error + 1e-6).all() and (error > 0).any()
    often = np.mean([NeighbourSampling(3, 1, epoch).edge_mask(GRAPHS[1], 1) for epoch in range(800)], axis=0)
    share = np.minimum(1, 3 / np.maximum(GRAPHS[1].in_degree(), 1))[GRAPHS[1].dst]
    assert (np.abs(often - share) < 5 * np.sqrt(share * (1 - share) / 800) + 1e-9).all()


def test_draws_depend_on_seed_epoch_and_snapshot():
    draws = [
        NeighbourSampling(2, *key[:2]).edge_mask(GRAPHS[1], key[2]).tobytes()
        for key in ((1, 0, 1), (2, 0, 1), (1, 1, 1), (1, 0, 2), (1, 0, 1))
    ]
    assert len(set(draws)) == 4 and draws[0] == draws[4]


@given(st.integers(1, 200), st.integers(1, 17), st.integers(0, 99), st.integers(0, 9))
def test_shares_are_even_and_deals_differ(nodes, ranks, seed, number):
    counts = np.bincount(assign_at_random(nodes, ranks, seed, number), minlength=ranks)
    assert len(counts) == ranks and counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(assign_at_random(nodes, 2 * ranks, seed, number) // 2, assign_at_random(nodes, ranks, seed, number))
    assert (
        nodes < 30 or ranks == 1 or (assign_at_random(nodes, ranks, seed, number) != assign_at_random(nodes, ranks, seed, number + 1)).any()
    )


@pytest.mark.parametrize("ranks", [1, 2, 5, 64])
def test_counts_are_those_of_sets(ranks):
    sampling = NeighbourSampling(3, 4, 1)
    found = ExactChunking(GRAPHS, Chunks(np.zeros(50, np.int32), 1), factor=3).count_samples(sampling, ranks)
    assert all((getattr(found.times(2), name) == 2 * getattr(found, name)).all() for name in SampleCounts.__slots__)
    old, new = assign_at_random(50, ranks, 4, 1), assign_at_random(50, ranks, 4, 2)
    for rank in range(ranks):
        own = {v for v in range(50) if new[v] == rank}
        before = {v for v in range(50) if old[v] == rank}
        assert (found.rows[rank], found.arriving[rank], found.leaving[rank]) == (3 * len(own), 3 * len(own - before), 3 * len(before - own))
        for t, snapshot in enumerate(GRAPHS):
            taken = sampled_subgraph(snapshot, sampling.edge_mask(snapshot, t))
            edges = [*zip(taken.src.tolist(), taken.dst.tolist(), strict=True)]
            read = {u for u, v in edges if v in own and u not in own}
            sent = {(u, new[v]) for u, v in edges if u in own and v not in own}
            assert found.candidates[t, rank] == 3 * sum(v in own for v in snapshot.dst.tolist())
            assert found.edges[t, rank] == 3 * sum(v in own for _, v in edges)
            assert (found.halo[t, rank], found.sent[t, rank]) == (3 * len(read), 3 * len(sent))


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_expected_counts_are_near_the_counted(ranks):
    """Of a random deal, where all neighbours are drawn: nothing but the deal is left to chance."""
    graphs = GrowthGraph.rmat(2000, 12_000, 3, 0.2, 3).sequence().without_self_edges()
    sampling = NeighbourSampling(10_000)
    counted, expected = (
        ExactChunking(graphs, Chunks(np.zeros(2000, np.int32), 1)).count_samples(sampling, ranks),
        ExpectedChunking.of(graphs, 1).count_samples(sampling, ranks),
    )
    for name in ("rows", "candidates", "edges", "halo", "sent", "arriving", "leaving"):
        one, other = (np.asarray(getattr(found, name)).sum(-1) for found in (counted, expected))
        np.testing.assert_allclose(one, other, rtol=0.05, atol=20 * ranks)
    few = ExpectedChunking.of(graphs, 1).count_samples(NeighbourSampling(2), ranks)
    assert (few.edges <= few.candidates).all() and few.edges.sum() <= 3 * 2 * 2000
    real = ExactChunking(graphs, Chunks(np.zeros(2000, np.int32), 1)).count_samples(NeighbourSampling(2), ranks)
    assert (few.edges.sum(1) >= real.edges.sum(1) - ranks).all()  # an upper estimate


def test_a_fanout_of_none():
    with pytest.raises(UserError, match="fanout must be at least 1 neighbour a node, got 0"):
        NeighbourSampling(0)
