"""Difference maps and deltas against set algebra and dense matrices; statistics against the deltas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from chronoscale.datasets.snapshots.csr import DeltaCSR
from chronoscale.datasets.snapshots.difference import DifferenceMap, delta_csr, edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError

N = 9
edge_sets = st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=40)
pairs = st.tuples(edge_sets, edge_sets)


@st.composite
def overlapping(draw):
    """Two snapshots that share most edges, as successive ones do."""
    edges = draw(edge_sets)
    return edges, (edges - draw(st.sets(st.sampled_from(sorted(edges)), max_size=4)) if edges else edges) | draw(
        st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=4)
    )


def snapshot(edges):
    array = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Snapshot.from_edges(N, array[:, 0], array[:, 1])


def edge_set(src, dst):
    return set(zip(src.tolist(), dst.tolist(), strict=True))


def dense(rows, csr):
    matrix = np.zeros((N, N))
    np.add.at(matrix, (np.repeat(rows, np.diff(csr.indptr)), csr.indices), csr.values)
    return matrix


def dense_full(csr):
    return dense(np.arange(N), csr)


@given(st.one_of(pairs, overlapping()))
def test_the_map_holds_the_set_differences_and_applies_back(graphs):
    before, after = graphs
    a, b = snapshot(before), snapshot(after)
    change = DifferenceMap.between(a, b)
    assert edge_set(change.added_src, change.added_dst) == after - before
    assert edge_set(change.removed_src, change.removed_dst) == before - after
    assert change.num_changed_edges == len(before ^ after)
    assert set(change.nodes.tolist()) == {node for edge in before ^ after for node in edge}
    assert_array_equal(change.out_before, a.out_degree()[change.nodes])
    assert_array_equal(change.in_after, b.in_degree()[change.nodes])
    restored = change.apply(a)
    assert_array_equal(restored.src, b.src)
    assert_array_equal(restored.dst, b.dst)


@given(st.one_of(pairs, overlapping()))
def test_the_exact_delta_is_the_difference_of_the_unnormalised_matrices(graphs):
    a, b = (snapshot(edges) for edges in graphs)
    delta = delta_csr(a, b)
    step = dense_full(b.csr()) - dense_full(a.csr())
    sums = dense_full(a.csr())
    sums[delta.rows[delta.fresh == 1]] = 0
    assert_allclose(sums + dense(delta.rows, delta), dense_full(b.csr()), atol=1e-6)
    assert (np.diff(delta.indptr) <= b.in_degree()[delta.rows] + 1).all()  # never more than the whole row
    assert (np.diff(delta.indptr)[delta.fresh == 1] == b.in_degree()[delta.rows[delta.fresh == 1]] + 1).all()
    assert set(np.flatnonzero(np.abs(step).max(axis=1) > 1e-6)) <= set(delta.rows.tolist())
    assert (np.diff(delta.indptr) > 0).all()  # no row without an entry
    assert_array_equal(delta.scale, b.csr().scale)
    assert delta.nbytes == DeltaCSR.nbytes_of(delta.rows.size, delta.indices.size, N)


@given(st.one_of(pairs, overlapping()))
def test_the_published_delta_has_the_changed_edges_with_their_own_days_weight(graphs):
    before, after = graphs
    a, b = snapshot(before), snapshot(after)
    expected = np.zeros((N, N))
    for u, v in after - before:
        expected[v, u] += 1 / np.sqrt((b.out_degree()[u] + 1.0) * (b.in_degree()[v] + 1.0))
    for u, v in before - after:
        expected[v, u] -= 1 / np.sqrt((a.out_degree()[u] + 1.0) * (a.in_degree()[v] + 1.0))
    delta = delta_csr(a, b, "as-published")
    assert_allclose(dense(delta.rows, delta), expected, atol=1e-6)
    assert delta.indices.size == len(before ^ after)
    assert_array_equal(delta.scale, np.ones(N))


def test_the_published_delta_leaves_common_edges_at_their_old_weight():
    """0 -> 1 stays while 0 gains an edge: exact re-weights it, the paper's form does not (REAL eq. 3-4)."""
    a, b = snapshot({(0, 1)}), snapshot({(0, 1), (0, 2)})
    features = np.arange(N, dtype=np.float64) + 1
    right = b.csr().scale * (dense_full(b.csr()) @ features)
    exact, published = delta_csr(a, b), delta_csr(a, b, "as-published")
    assert not published.fresh.any()
    sums = dense_full(a.csr())
    sums[exact.rows[exact.fresh == 1]] = 0
    by_exact = exact.scale * ((sums + dense(exact.rows, exact)) @ features)
    by_paper = (dense_full(a.csr("as-published")) + dense(published.rows, published)) @ features
    assert_allclose(by_exact, right, rtol=1e-6)
    assert abs(by_paper[1] - right[1]) > 0.05


@given(st.lists(edge_sets, min_size=1, max_size=5), st.lists(overlapping(), max_size=2))
def test_statistics_equal_the_brute_force_over_maps_and_deltas(sets, more):
    sequence = [snapshot(edges) for edges in [*sets, *(edges for pair in more for edges in pair)]]
    counts = statistics_of(iter(sequence))
    assert len(counts) == len(sequence)
    for t, graph in enumerate(sequence):
        assert counts.nodes[t] == len(set(graph.src.tolist()) | set(graph.dst.tolist())) == graph.num_active
        assert counts.edges[t] == graph.num_edges
        expected = (0,) * 7
        if t:
            change, delta = DifferenceMap.between(sequence[t - 1], graph), delta_csr(sequence[t - 1], graph)
            sizes = change.num_changed_nodes, change.num_changed_edges, change.added_src.size, change.removed_src.size
            expected = (*sizes, delta.rows.size, delta.indices.size, edge_map(sequence[t - 1], graph).rows.size)
        columns = (counts.changed_nodes, counts.changed_edges, counts.added, counts.removed)
        columns += (counts.touched_rows, counts.effective_edges, counts.map_rows)
        assert tuple(int(c[t]) for c in columns) == expected


def test_statistics_survive_their_file_and_name_a_damaged_one(tmp_path):
    counts = statistics_of([snapshot({(0, 1)}), snapshot({(0, 1), (2, 3)})])
    counts.save(tmp_path / "counts.npz")
    again = SnapshotStatistics.load(tmp_path / "counts.npz")
    assert again.num_nodes == N
    assert_array_equal(again.effective_edges, counts.effective_edges)
    (tmp_path / "counts.npz").write_bytes((tmp_path / "counts.npz").read_bytes()[:100])
    with pytest.raises(UserError, match=r"counts\.npz: truncated"):
        SnapshotStatistics.load(tmp_path / "counts.npz")
    with pytest.raises(UserError, match=r"none\.npz: no such file"):
        SnapshotStatistics.load(tmp_path / "none.npz")


def test_what_does_not_compare_is_refused():
    other = Snapshot.from_edges(3, np.array([0]), np.array([1]))
    with pytest.raises(UserError, match="9 and 3 nodes"):
        DifferenceMap.between(snapshot({(0, 1)}), other)
    with pytest.raises(UserError, match="snapshot 1 has 3 nodes"):
        statistics_of([snapshot({(0, 1)}), other])
    with pytest.raises(UserError, match="at least one"):
        statistics_of([])
    change = DifferenceMap.between(snapshot({(0, 1)}), snapshot({(1, 2)}))
    with pytest.raises(UserError, match="does not belong"):
        change.apply(snapshot({(1, 2)}))
