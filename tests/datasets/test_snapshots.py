"""Snapshots and sequences: invariants at construction, views, windows, GCN weights against a dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from profiles import examples

from chronoscale.datasets.snapshots import sequence as snapshots
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import UserError

I32 = np.int32
edges_of_8 = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30)


def snapshot(edges, nodes=8):
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Snapshot.from_edges(nodes, pairs[:, 0], pairs[:, 1])


def edge_set(graph):
    return set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        ([0, 1], [1, 0], r"order \(dst, src\)"),
        ([0, 0], [1, 1], "without duplicates"),
        ([0, 9], [1, 1], "node id 9 is outside 0..3"),
        ([-1, 0], [1, 1], "node id -1"),
    ],
)
def test_a_snapshot_refuses_edges_that_break_its_invariants(src, dst, message):
    with pytest.raises(UserError, match=message):
        Snapshot(4, np.array(src, dtype=I32), np.array(dst, dtype=I32))


def test_a_snapshot_refuses_other_dtypes_and_weights_that_are_not_finite():
    one = np.array([1], dtype=I32)
    with pytest.raises(UserError, match="expected an array of int32, got int64"):
        Snapshot(4, np.array([1]), one)
    with pytest.raises(UserError, match="not finite"):
        Snapshot(4, one, one, np.array([np.nan], dtype=np.float32))


def test_from_edges_sorts_and_sums_the_weights_of_duplicates():
    graph = Snapshot.from_edges(4, np.array([3, 0, 3, 1]), np.array([2, 1, 2, 0]), np.array([1, 5, 2, 7]))
    assert_array_equal(graph.src, [1, 0, 3])
    assert_array_equal(graph.dst, [0, 1, 2])
    assert graph.weight is not None
    assert_array_equal(graph.weight, [7, 5, 3])
    assert_array_equal(graph.in_degree(), [1, 1, 1, 0])
    assert_array_equal(graph.out_degree(), [1, 1, 0, 1])
    assert (graph.num_edges, graph.num_active) == (3, 4)


def test_a_sequence_checks_order_inside_snapshots_but_not_across_them():
    src, dst = np.array([2, 0, 1], dtype=I32), np.array([3, 0, 1], dtype=I32)
    sequence = SnapshotSequence(4, np.array([0, 1, 1, 3]), src, dst)
    assert [edge_set(s) for s in sequence] == [{(2, 3)}, set(), {(0, 0), (1, 1)}]
    assert sequence[-1].num_edges == 2
    assert np.shares_memory(sequence[2].src, src)
    with pytest.raises(IndexError):
        sequence[3]
    with pytest.raises(UserError, match="edge 1 is not after edge 0"):
        SnapshotSequence(4, np.array([0, 2, 3]), src, dst)


@pytest.mark.parametrize("wrong", range(1, 6))
def test_order_is_checked_across_the_blocks_of_a_long_sequence(monkeypatch, wrong):
    monkeypatch.setattr(snapshots, "_BLOCK", 2)
    src = np.arange(6, dtype=I32)
    assert SnapshotSequence(6, np.array([0, 6]), src, src).num_edges == 6
    src[wrong] = src[wrong - 1]
    with pytest.raises(UserError, match=f"edge {wrong} is not after"):
        SnapshotSequence(6, np.array([0, 6]), src, src)


@pytest.mark.parametrize("ptr", [[0, 2], [1, 3], [0, 3, 2, 3], [0]])
def test_a_sequence_refuses_offsets_that_do_not_cover_its_edges(ptr):
    ids = np.arange(3, dtype=I32)
    with pytest.raises(UserError, match="ptr"):
        SnapshotSequence(4, np.array(ptr), ids, ids)


@examples(40)
@given(st.lists(edges_of_8, min_size=1, max_size=6), st.integers(1, 8))
def test_a_window_is_the_union_of_its_months_and_weights_count_them(months, k):
    graphs = [snapshot(m) for m in months]
    ones = [Snapshot(8, g.src, g.dst, np.ones(g.num_edges, dtype=np.float32)) for g in graphs]
    windows = SnapshotSequence.from_snapshots(ones, "months").window(k)
    assert (len(windows), windows.name) == (len(months), "months")
    for t, window in enumerate(windows):
        part = months[max(0, t - k + 1) : t + 1]
        assert edge_set(window) == set().union(*part)
        for u, v, weight in zip(window.src.tolist(), window.dst.tolist(), window.weight, strict=True):
            assert weight == sum((u, v) in month for month in part)


def dense(csr):
    matrix = np.zeros((csr.scale.size, csr.scale.size))
    np.add.at(matrix, (np.repeat(np.arange(csr.scale.size), np.diff(csr.indptr)), csr.indices), csr.values)
    return matrix


@examples(40)
@given(edges_of_8)
def test_csr_is_kipfs_normalisation_of_a_plus_i_in_both_variants(edges):
    graph = snapshot(edges)
    adjacency = np.eye(8)
    for u, v in edges:
        adjacency[v, u] += 1
    normalised = adjacency / np.sqrt(np.outer(graph.in_degree() + 1.0, graph.out_degree() + 1.0))
    exact, published = graph.csr(), graph.csr("as-published")
    assert_allclose(exact.scale[:, None] * dense(exact), normalised, rtol=1e-6)
    assert_allclose(dense(published), normalised, rtol=1e-6)
    assert_array_equal(published.scale, np.ones(8))
    assert exact.nbytes == WeightedCSR.nbytes_of(8, graph.num_edges)


def test_an_unknown_variant_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'as-published'"):
        snapshot({(0, 1)}).csr("published")
