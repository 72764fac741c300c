"""Communities of generated graphs and streams: degrees stay, the wanted share of edges leaves, and METIS finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chronoscale.batching.snapshots.partition import metis_assignment
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.generate.generators import read_generator
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.mixing import SMALLEST, draw_communities, mix
from chronoscale.datasets.generate.rmat import rmat
from chronoscale.errors import UserError

NODES, EDGES = 4_000, 12_000


@pytest.fixture(scope="module")
def graph():
    return tuple(ends.astype(np.int64) for ends in rmat(NODES, EDGES, 3))


@pytest.mark.parametrize("mixing", [0.4, 0.6, 0.9])
def test_degrees_stay_edges_are_distinct_and_the_wanted_share_leaves(graph, mixing):
    src, dst = graph
    before = dst.copy()
    mixed = mix(NODES, src, dst, mixing, 3)
    assert (dst == before).all()
    assert (np.bincount(mixed, minlength=NODES) == np.bincount(dst, minlength=NODES)).all()
    assert len({(a, b) for a, b in zip(src.tolist(), mixed.tolist(), strict=True)}) == EDGES
    assert not (src == mixed).any()
    community = draw_communities(NODES, 3)
    assert np.mean(community[src] != community[mixed]) == pytest.approx(mixing, abs=1e-3)


def test_communities_have_sizes_of_a_power_law_and_lie_anywhere():
    of = draw_communities(20_000, 1)
    sizes = np.bincount(of)
    assert sizes.sum() == 20_000
    assert SMALLEST <= sizes.min() < 30
    assert 1_000 < sizes.max() <= 2_000 + SMALLEST
    assert np.median(sizes) < sizes.mean() / 1.5  # a tail
    assert abs(np.corrcoef(of, np.arange(20_000))[0, 1]) < 0.05
    assert (of != draw_communities(20_000, 2)).any()


@pytest.mark.slow
def test_metis_cuts_less_where_fewer_edges_leave(graph):
    src, dst = graph
    cuts = []
    for mixing in (None, 0.6, 0.4):
        ends = dst if mixing is None else mix(NODES, src, dst, mixing, 3)
        part = metis_assignment(src, ends, NODES, 8)
        cuts.append(np.mean(part[src] != part[ends]))
    assert cuts[0] > cuts[1] + 0.05 > cuts[2] + 0.1
    assert cuts[2] < 0.4  # no better cut is needed than the planted one


def test_a_share_of_one_is_the_graph_without_communities_and_a_seed_gives_one_graph(graph):
    src, dst = graph
    assert (mix(NODES, src, dst, 1.0, 3) == dst).all()
    assert (mix(NODES, src, dst, 0.5, 3) == mix(NODES, src, dst, 0.5, 3)).all()
    assert (mix(NODES, src, dst, 0.5, 3) != mix(NODES, src, dst, 0.5, 4)).any()


@pytest.mark.parametrize("mixing", [0.0, -0.1, 1.1, float("nan")])
def test_shares_outside_of_one_are_refused(mixing):
    with pytest.raises(UserError, match="mixing: expected the share of edges that leave"):
        RandomStream(1_000, 5_000, 2_000, mixing=mixing)


def test_what_cannot_stay_is_told():
    with pytest.raises(UserError, match="mixing: expected 200 nodes or more"):
        GrowthGraph.rmat(100, 400, 3, 0.1, mixing=0.5)
    with pytest.raises(UserError, match=r"mixing: at these degrees 0\.\d+ or more of the edges leave"):
        GrowthGraph.rmat(2_200, 33_100, 3, 0.1, mixing=0.2)


def test_snapshots_keep_the_mean_degrees_and_the_communities():
    plain, mixed = (GrowthGraph.rmat(NODES, EDGES, 4, 0.1, 3, name="g", mixing=mixing) for mixing in (None, 0.4))
    community = draw_communities(NODES, 3)
    assert np.bincount(plain.dst, minlength=NODES).tolist() == np.bincount(mixed.dst, minlength=NODES).tolist()
    for one, other in zip(plain, mixed, strict=True):
        assert len(one.src) == len(other.src)
        assert np.mean(community[other.src] != community[other.dst]) == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("items", [0, 400])
def test_streams_have_their_pairs_within_communities(items):
    made = [RandomStream(2_000, 20_000, 6_000, items=items, seed=5, mixing=mixing).stream() for mixing in (None, 0.6, 0.6)]
    pairs = [np.unique(np.stack([one.src, one.dst], 1), axis=0) for one in made]
    assert [len(one) for one in pairs] == [6_000] * 3
    for end in (0, 1):  # as many partners as without communities
        assert (np.bincount(pairs[0][:, end], minlength=2_000) == np.bincount(pairs[1][:, end], minlength=2_000)).all()
    assert (made[1].dst == made[2].dst).all()
    assert (made[0].dst != made[1].dst).any()


@pytest.mark.slow
def test_metis_cuts_less_of_a_stream_with_communities():
    cuts = []
    for mixing in (None, 0.5):
        made = RandomStream(10_000, 60_000, 30_000, seed=5, mixing=mixing).stream()
        src, dst = np.unique(np.stack([made.src, made.dst]), axis=1).astype(np.int64)
        part = metis_assignment(src, dst, 10_000, 8)
        cuts.append(np.mean(part[src] != part[dst]))
    assert cuts[1] < min(cuts[0] - 0.05, 0.5)  # the planted cut leaves half of the pairs within parts


def test_a_file_may_ask_for_communities(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text("{kind: growth, nodes: 2000, edges: 5000, snapshots: 3, change_rate: 0.1, mixing: 0.6}")
    assert len(read_generator(path)) == 3
    path.write_text("{kind: growth, nodes: 2000, edges: 5000, snapshots: 3, change_rate: 0.1, mixing: 2.0}")
    with pytest.raises(UserError, match="mixing"):
        read_generator(path)
