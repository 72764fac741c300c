"""Generators: the same graph from the same seed, edge counts on their trend, overlap, skew and bursts where promised."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pydantic import TypeAdapter, ValidationError

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.generators import build
from chronoscale.datasets.generate.growth import GrowthGraph, stackoverflow_trend
from chronoscale.datasets.generate.rmat import rmat
from chronoscale.datasets.generate.specs import GeneratorSpec
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError

GROWTH = GrowthGraph.rmat(300, 3000, snapshots=20, change_rate=0.14, seed=3)
EVOLVING = EvolvingGraph(400, 3000, 300, seed=3)


def same(a: SnapshotSequence, b: SnapshotSequence) -> bool:
    return np.array_equal(a.ptr, b.ptr) and np.array_equal(a.src, b.src) and np.array_equal(a.dst, b.dst)


@pytest.mark.parametrize(
    ("generator", "other"), [(GROWTH, GrowthGraph.rmat(300, 3000, 20, 0.14, seed=4)), (EVOLVING, EvolvingGraph(400, 3000, 300, seed=4))]
)
def test_a_seed_is_a_graph(generator, other):
    first, again = generator.sequence(), generator.sequence()
    assert len(first) == len(generator)
    assert same(first, again)
    assert not same(first, other.sequence())


@pytest.mark.parametrize("generator", [GROWTH, EVOLVING])
def test_statistics_stream_what_the_sequence_holds(generator):
    streamed, held = generator.statistics(), statistics_of(generator.sequence())
    assert_array_equal(streamed.effective_edges, held.effective_edges)
    assert_array_equal(streamed.changed_nodes, held.changed_nodes)


def test_growth_follows_its_trend_inside_the_static_graph():
    counts = GROWTH.statistics()
    assert_array_equal(counts.edges, np.rint(stackoverflow_trend(20) * 3000))
    static = set(zip(GROWTH.src.tolist(), GROWTH.dst.tolist(), strict=True))
    assert all(set(zip(s.src.tolist(), s.dst.tolist(), strict=True)) <= static for s in GROWTH)


def test_growth_deletes_and_restores_at_its_rate():
    counts = GROWTH.statistics()
    growth = np.diff(counts.edges)
    replaced = np.rint(0.14 * counts.edges[:-1] / 2)
    left_out = 3000 - counts.edges[:-1]
    assert_array_equal(counts.added[1:], np.minimum(replaced + np.maximum(growth, 0), left_out))
    assert_array_equal(counts.removed[1:], counts.added[1:] - growth)
    assert (counts.removed[1:] > 0).all()


def test_growth_shrinks_where_the_trend_does_and_stays_whole_at_its_top():
    trend = np.array([0.2, 1.0, 1.0, 0.5])
    counts = GrowthGraph.rmat(100, 1000, 4, 0.1, trend=trend).statistics()
    assert_array_equal(counts.edges, [200, 1000, 1000, 500])
    assert_array_equal(counts.changed_edges, [0, 800, 0, 500])  # nothing is left out at the top, so nothing can change there


def test_evolving_snapshots_overlap_vary_and_burst():
    counts = EvolvingGraph(1000, 8000, 1500, seed=1).statistics()
    share = counts.changed_edges[1:] / np.maximum(counts.edges[1:], counts.edges[:-1])
    assert np.median(share) < 0.05  # neighbours overlap
    assert share.max() > 20 * np.median(share)  # and some steps are bursts, more than the exponential alone would give
    assert share.max() < 1.2
    assert counts.nodes[-1] > 3 * counts.nodes[0]  # nodes arrive
    assert counts.edges.std() > 0.2 * counts.edges.mean()
    assert (counts.added[1:].sum() > 0) and (counts.removed[1:].sum() > 0)


def test_evolving_degrees_are_skewed():
    *_, last = EvolvingGraph(1000, 8000, 50, seed=1)
    degree = np.sort(last.in_degree())
    assert degree[-10:].mean() > 8 * degree.mean()


def test_rmat_gives_the_asked_number_of_distinct_edges_without_loops():
    src, dst = rmat(1000, 5000, seed=0)
    assert len(set(zip(src.tolist(), dst.tolist(), strict=True))) == 5000
    assert (src != dst).all()
    assert max(src.max(), dst.max()) < 1000
    degree = np.sort(np.bincount(src, minlength=1000))
    assert degree[-100:].sum() > 3 * 5000 / 10


def test_a_spec_builds_its_generator_with_every_parameter():
    spec = {"kind": "dygraph", "nodes": 50, "edges": 40, "snapshots": 7, "churn": 0.1, "burst_rate": 0.2, "skew": 0.3}
    assert build(TypeAdapter(GeneratorSpec).validate_python(spec), "x", 9) == EvolvingGraph(50, 40, 7, 0.1, 0.2, 0.3, 9, "x")
    spec = {"kind": "growth", "nodes": 50, "edges": 40, "snapshots": 7, "change_rate": 0.5}
    growth = build(TypeAdapter(GeneratorSpec).validate_python(spec), "x", 9)
    assert (growth.num_nodes, growth.src.size, len(growth), growth.change_rate, growth.seed, growth.name) == (50, 40, 7, 0.5, 9, "x")
    with pytest.raises(ValidationError, match="change_rate"):
        TypeAdapter(GeneratorSpec).validate_python({**spec, "change_rate": 2})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rmat(10, 50, 0), r"expected 1\.\.22 edges"),
        (lambda: GrowthGraph.rmat(100, 1000, 4, 1.5), "change_rate"),
        (lambda: GrowthGraph.rmat(100, 1000, 2, 0.1, trend=np.array([0.0, 1.0])), "trend"),
        (lambda: stackoverflow_trend(0), "at least 1"),
        (lambda: EvolvingGraph(5, 10, 10), "10 nodes"),
        (lambda: EvolvingGraph(100, 10**6, 10), "edges for 100 nodes"),
        (lambda: EvolvingGraph(100, 100, 10, skew=1.0), "skew"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
