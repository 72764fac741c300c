"""FAST's Tables 2 and 5: lanes, warps and caches, counted in plain loops beside the fast path."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_epoch import tiny

from chronoscale.harness.study.hooks import fast_reuse as reuse
from chronoscale.harness.study.hooks import fast_warps as warps
from chronoscale.harness.study.hooks.fast_epochs import Subgraph, largest, outer
from chronoscale.harness.study.hooks.fast_kernels import kernels
from chronoscale.harness.study.hooks.fast_warps import Gpu, apiece, looping, resident, shuffling

degrees = st.lists(st.integers(0, 10), min_size=1, max_size=90).map(lambda drawn: np.array(drawn, np.int64))


def graph(counts: np.ndarray, seed: int = 0, rows: int = 12) -> Subgraph:
    return Subgraph(counts, np.random.default_rng(seed).integers(0, rows, int(counts.sum())), rows)


@given(degrees, st.integers(1, 3))
def test_lanes_that_loop(counts, threads) -> None:
    lanes = [int(count) for count in counts for _ in range(threads)]
    active = turns = 0
    for first in range(0, len(lanes), 32):
        warp = lanes[first : first + 32]
        for turn in range(max(warp)):
            active, turns = active + sum(lane > turn for lane in warp), turns + 1
    assert looping(counts, threads) == pytest.approx(active / turns if turns else np.nan, nan_ok=True)


@given(degrees)
def test_lanes_that_shuffle(counts) -> None:
    """A tree of four steps over 16 lanes: a lane's step is of use where its partner's half still has an edge."""
    with_edge, useful = shuffling(counts, 16)
    lanes = np.arange(16) < counts[:, None]
    assert with_edge == pytest.approx(32 * lanes.mean())
    sums = 0
    for row in lanes.astype(int):
        for step in (8, 4, 2, 1):
            sums += sum(1 for lane in range(step) if row[lane] and row[lane + step])
            row[:step] |= row[step : 2 * step]
    assert useful == pytest.approx(32 * sums / (len(counts) * 16 * 4))


def test_lanes_with_an_edge_each() -> None:
    assert apiece(64) == 32 and apiece(33) == 16.5 and np.isnan(apiece(0))
    assert np.isnan(looping(np.zeros(3, np.int64)))


def test_warps_that_an_sm_has() -> None:
    gpu = Gpu(sms=4, warps=64, blocks=32)
    assert resident(2, 1024, gpu) == 16 and resident(6, 1024, gpu) == 48  # as many blocks as there are
    assert resident(100, 1024, gpu) == 64 and resident(1000, 32, gpu) == 32  # as many as fit


def played(reads: reuse.Reads, gpu: Gpu) -> tuple[float, float]:
    """SMs take turns, one read each, each through its own list; caches forget what was used least recently."""
    queues = [[(int(u), bool(a)) for b, u, a in zip(reads.block, reads.unit, reads.atomic, strict=True) if b % gpu.sms == sm]
              for sm in range(gpu.sms)]  # fmt: skip
    l1, l2 = [OrderedDict() for _ in queues], OrderedDict()
    sizes = [16 * max(size // (reads.size * 16), 1) for size in (gpu.l1, gpu.l2)]
    hit_lists: dict[str, list[bool]] = {"l1": [], "l2": []}

    def ask(cache: OrderedDict, unit: int, size: int, name: str) -> bool:
        hit = unit in cache
        hit_lists[name].append(hit)
        cache[unit] = None
        cache.move_to_end(unit)
        if len(cache) > size:
            cache.popitem(last=False)
        return hit

    for turn in range(max(map(len, queues), default=0)):
        for sm, queue in enumerate(queues):
            if turn < len(queue):
                unit, atomic = queue[turn]
                if atomic or not ask(l1[sm], unit, sizes[0], "l1"):
                    ask(l2, unit, sizes[1], "l2")
    return tuple(float(np.mean(hits)) if hits else np.nan for hits in hit_lists.values())  # type: ignore[return-value]


@given(degrees.filter(lambda counts: counts.sum() > 0), st.integers(0, 3))
def test_caches_read_by_read(counts, seed) -> None:
    gpu, one = Gpu(sms=3, l1=16 * 32, l2=16 * 64), graph(counts, seed)  # one set each, of 16 ways
    forms = (reuse.by_node(one, 8, 4), reuse.by_edge(one, 8, 4), reuse.softmax_looping(one, 2, 16), reuse.softmax_shuffling(one, 2, 4, 16))
    for reads in forms:
        expected = played(reads, Gpu(gpu.sms, l1=16 * reads.size, l2=16 * reads.size))
        rates = reuse.hit_rates(reads, Gpu(gpu.sms, l1=16 * reads.size, l2=16 * reads.size))
        assert rates == pytest.approx(expected, nan_ok=True)


def test_what_operators_read() -> None:
    """Three targets of 2, 0 and 3 edges."""
    one = Subgraph(np.array([2, 0, 3]), np.array([5, 6, 5, 1, 6]), 7)
    node, edge = reuse.by_node(one, 8, 2), reuse.by_edge(one, 8, 2)
    assert node.block.tolist() == [0, 0, 1, 1, 1] and node.unit.tolist() == [5, 6, 5, 1, 6] and node.size == 32
    assert edge.block.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert edge.unit.tolist() == [5, 7, 6, 7, 5, 9, 1, 9, 6, 9] and edge.atomic.tolist() == [False, True] * 5
    looped, shuffled = reuse.softmax_looping(one, 2, 16), reuse.softmax_shuffling(one, 2, 4, 16)
    # Scores of 5 edges and 2 heads are 40 bytes: edges 0 to 3 lie in the first sector, edge 4 in the second.
    assert looped.unit.tolist() == [0, 0, 1] * 3  # one warp: the first edge of each target, the second, the third; three passes
    assert shuffled.unit.tolist() == [0, 0, 1] * 2  # a warp of targets 0 and 1, one of target 2; a head after another


def test_the_outer_hop_is_as_sampled() -> None:
    for neighbourhood in tiny().neighbourhoods():
        one, hop, tree = outer(neighbourhood), neighbourhood.trees[0].hops[-1], neighbourhood.trees[0]
        assert one.counts.tolist() == hop.there.sum(1).tolist() and one.source.size == hop.there.sum()
        met = neighbourhood.nodes[tree.levels[-1][hop.slot[hop.there]]]
        assert len(set(zip(met.tolist(), one.source.tolist(), strict=True))) == one.rows == len(set(met.tolist()))
        assert one.indptr[-1] == one.target.size == one.source.size and (np.diff(one.indptr) == one.counts).all()


def test_kernels_of_a_subgraph() -> None:
    kernel_counts = kernels(largest(tiny()))
    assert set(kernel_counts) == {("edge softmax", "dgnn"), ("edge softmax", "fast"), ("aggregation", "fastgl"), ("aggregation", "fast")}
    assert kernel_counts["aggregation", "fast"].threads > kernel_counts["aggregation", "fastgl"].threads
    assert kernel_counts["edge softmax", "fast"].l1 > kernel_counts["edge softmax", "dgnn"].l1
    assert kernel_counts["edge softmax", "dgnn"].threads == warps.LANES > kernel_counts["edge softmax", "dgnn"].useful
