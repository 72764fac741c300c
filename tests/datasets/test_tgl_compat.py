"""TGL's form of sampling against its loop, copied from C++ to plain Python, and where it differs from the exact one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.reference.splitmix import STEP, WORD, mix
from chronoscale.cuda_ext.sampling.temporal import POLICIES, Policy, SampledNeighbors
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.datasets.streams.tgl_compat import TGLSampler, TimedHop
from chronoscale.errors import UserError

NODES = 6  # 5 is isolated
F = np.float32
nodes = st.integers(0, NODES - 2)
times = st.one_of(
    st.integers(0, 9), st.integers(2**24 - 4, 2**24 + 4), st.integers(0, 40).map(lambda tenth: tenth / 10)
)  # float32 merges some
streams = st.lists(st.tuples(nodes, nodes, times), max_size=40).map(lambda events: stream_of(sorted(events, key=lambda event: event[2])))
batches = st.lists(st.lists(st.tuples(st.integers(0, NODES - 1), times), max_size=8), min_size=1, max_size=4)  # in any order


def stream_of(events: list[tuple[int, int, float]]) -> EventStream:
    src, dst, t = (np.array([event[i] for event in events], dtype) for i, dtype in enumerate("iid"))
    return EventStream(NODES, src, dst, t)


@dataclass
class Block:
    """What TGL returns of a layer and window; nodes and ts begin with its roots."""

    nodes: list[int]
    ts: list[np.float32]
    row: list[int] = field(default_factory=list)
    eid: list[int] = field(default_factory=list)


@dataclass
class Upstream:
    """`ParallelSampler` of sampler_core.cpp, github.com/wyq-carol/TGL at 7f5be450477bf29063e71f7dbc062a4a33071a43, on one thread.

    Two departures: in place of `rand_r` stands `draw`; where layers after the first leave root_nodes unset, it is set as by
    getSamplerCore/sampler_core.cpp of github.com/NoneBone/FAST at ea97ab1e43b79c8a98472ad23348a0c7c67896fa.
    """

    indptr: list[int]
    indices: list[int]
    eid: list[int]
    ts: list[np.float32]
    num_neighbors: list[int]
    recent: bool
    prop_time: bool
    num_history: int
    window_duration: np.float32
    draw: Callable[[int, int, int, np.float32, int, int], int]  # layer, window, node, time, draw, size

    def __post_init__(self) -> None:
        self.ts_ptr = [self.indptr[:-1] for _ in range(self.num_history + 1)]

    def update_ts_ptr(self, slc: int, block: Block, offset: np.float32) -> None:
        pointer = self.ts_ptr[slc]
        for n, root_ts in zip(block.nodes, block.ts, strict=True):
            for j in range(pointer[n], self.indptr[n + 1]):
                if self.ts[j] > root_ts + offset - F(1e-7):
                    if j != pointer[n]:
                        pointer[n] = j - 1
                    break
                if j == self.indptr[n + 1] - 1:
                    pointer[n] = j

    def upper_bound(self, n: int, time: np.float32) -> int:
        at = self.indptr[n]
        while at < self.indptr[n + 1] and not self.ts[at] > time:
            at += 1
        return at

    def sample(self, roots: Block) -> list[list[Block]]:
        """By layer and window, the newest first."""
        ret: list[list[Block]] = []
        for layer, neighs in enumerate(self.num_neighbors):
            use_ptr = layer == 0 or (self.prop_time and self.num_history == 1) or self.recent
            above = ret[-1] if layer else [roots] * self.num_history
            if use_ptr:
                self.update_ts_ptr(self.num_history, above[0], F(0))
            ret.append([])
            for i, root in enumerate(above):
                offset = F(-i) * self.window_duration
                if use_ptr and abs(self.window_duration) > F(1e-7):
                    self.update_ts_ptr(self.num_history - 1 - i, root, offset - self.window_duration)
                ret[-1].append(self.sample_window(layer, i, root, neighs, use_ptr, offset))
        return ret

    def sample_window(self, layer: int, i: int, root: Block, neighs: int, use_ptr: bool, offset: np.float32) -> Block:
        made = Block(list(root.nodes), list(root.ts))
        for j, (n, nts) in enumerate(zip(root.nodes, root.ts, strict=True)):
            if use_ptr:
                s_search, e_search = self.ts_ptr[self.num_history - 1 - i][n], self.ts_ptr[self.num_history - i][n]
            elif self.num_history == 1:
                s_search = self.indptr[n]
                e_search = max(self.upper_bound(n, nts) - 1, s_search)
            else:
                s_search = max(self.upper_bound(n, nts + offset - self.window_duration) - 1, self.indptr[n])
                e_search = max(self.upper_bound(n, nts + offset) - 1, s_search)
            if self.recent or e_search - s_search < neighs:
                picks = list(range(e_search, max(s_search, e_search - neighs), -1))
            else:
                picks = [s_search + self.draw(layer, i, n, nts, k, e_search - s_search + 1) for k in range(neighs)]
            for k in picks:
                if self.ts[k] < nts + offset - F(1e-7):
                    made.row.append(j)
                    made.eid.append(self.eid[k])
                    made.ts.append(nts if self.prop_time else self.ts[k])
                    made.nodes.append(self.indices[k])
        return made


def drawn(seed: int) -> Callable[[int, int, int, np.float32, int, int], int]:
    """Our draws, in place of rand_r: by SplitMix64 of the layer's and window's key, the root, and the slot."""

    def draw(layer: int, window: int, node: int, time: np.float32, slot: int, size: int) -> int:
        key = draws.derive_key(seed, layer, window)
        root = mix(((node << 32 | int(time.view(np.uint32))) * STEP + key) & WORD) >> 11
        return int((mix(((root * 1024 + slot) * STEP + key) & WORD) >> 11) * 2.0**-53 * size)

    return draw


def upstream(graph: TCSR, stream: EventStream, fanouts: list[int], sampler: dict[str, object], seed: int) -> Upstream:
    ts = [F(stream.t[e]) for e in graph.event]
    policy, windows, duration, propagate = sampler.values()
    given = graph.indptr.tolist(), graph.neighbor.tolist(), graph.event.tolist(), ts, fanouts
    return Upstream(*given, policy == "recent", propagate, windows, F(duration), drawn(seed))  # type: ignore[arg-type]


def events(found: SampledNeighbors) -> list[list[int]]:
    return [event[:n] for event, n in zip(found.event.tolist(), found.counts.tolist(), strict=True)]


def chosen(policy: Policy, windows: int, duration: float, propagate: bool) -> dict[str, object]:
    return {"policy": policy, "windows": windows, "duration": duration if windows > 1 else 0.0, "propagate": propagate}


samplers = st.builds(chosen, st.sampled_from(POLICIES), st.integers(1, 3), st.sampled_from((0.5, 1.0, 3.0)), st.booleans())


def same(blocks: list[Block], hops: list[TimedHop], fanouts: list[int]) -> None:
    """TGL's slots are the latest first, or as drawn; ours ascend. A layer of TGL's samples for the roots of the one before again, first; a
    third layer would walk for what it finds then, which is not reproduced: its models have two."""
    place = list(range(len(blocks[0].nodes) - len(blocks[0].row)))  # of each slot of ours in TGL's roots, or -1
    for block, hop, fanout in zip(blocks, hops, fanouts, strict=True):
        roots = len(block.nodes) - len(block.row)
        assert hop.node.tolist() == [block.nodes[at] if at >= 0 else -1 for at in place]
        assert [time for time, at in zip(hop.time.tolist(), place, strict=True) if at >= 0] == [block.ts[at] for at in place if at >= 0]
        below: list[int] = []
        for mine, there in zip(events(hop.sampled), place, strict=True):
            slots = [k for k, row in enumerate(block.row) if row == there and there >= 0]
            slots.sort(key=lambda k: block.eid[k])
            assert mine == [block.eid[k] for k in slots]
            below += [roots + k for k in slots] + [-1] * (fanout - len(slots))
        for column in (hop.sampled.neighbor, hop.sampled.event):
            assert (column[np.arange(fanout) >= hop.sampled.counts[:, None]] == -1).all()
        place = below


@given(streams, batches, st.lists(st.integers(0, 4), min_size=1, max_size=2), samplers, st.booleans(), st.integers(0, 2**64))
def test_neighbours_are_those_of_the_loop(
    stream: EventStream, asked: list[list[tuple[int, float]]], fanouts: list[int], sampler: dict[str, object], both: bool, seed: int
) -> None:
    graph = TCSR.of(stream, both)
    mine = TGLSampler(graph, stream.t, **sampler)  # type: ignore[arg-type]
    for _ in range(2):
        theirs = upstream(graph, stream, fanouts, sampler, seed)
        for batch in asked:
            node, time = np.array([n for n, _ in batch], np.int32), np.array([at for _, at in batch], np.float64)
            layers = theirs.sample(Block(node.tolist(), list(time.astype(F))))
            found = mine.sample(node, time, fanouts, seed)
            assert len(found) == sampler["windows"]
            for back, hops in enumerate(reversed(found)):
                same([layer[back] for layer in layers], hops, fanouts)
            assert mine.pointers.tolist() == theirs.ts_ptr
        mine.reset()


@given(st.lists(st.tuples(nodes, nodes, st.integers(4, 12)), max_size=40), st.integers(0, 6), st.integers(4, 13))
def test_where_it_differs_from_the_exact_one(made: list[tuple[int, int, float]], fanout: int, at: int) -> None:
    """By the oldest event and the ties alone, where a node is asked for once: ties take places of the window, then both are dropped."""
    stream = stream_of(sorted(made, key=lambda event: event[2]))
    graph, node = TCSR.of(stream), np.arange(NODES, dtype=np.int32)
    earlier, tied = (int(np.searchsorted(stream.t, at, side)) for side in ("left", "right"))  # events before `at`, and until it
    exact, until = (events(graph.sample(node, np.full_like(node, bound), fanout)) for bound in (earlier, tied))
    [[hop]] = TGLSampler(graph, stream.t).sample(node, np.full(NODES, at), [fanout])
    for v, found in enumerate(events(hop.sampled)):
        oldest = graph.event[graph.indptr[v] : graph.indptr[v] + 1].tolist()
        assert found == [e for e in until[v] if e < earlier and e not in oldest]
        if until[v] == exact[v]:  # no ties
            assert found == [e for e in exact[v] if e not in oldest]


def test_differences_by_hand() -> None:
    """Node 0 meets 1, 2, 3, 4 at times 10, 20, 30, 30."""
    stream = stream_of([(0, 1, 10), (0, 2, 20), (0, 3, 30), (0, 4, 30)])
    graph, zero = TCSR.of(stream), np.zeros(1, np.int32)

    def compat(at: float, fanout: int, t: np.ndarray = stream.t) -> list[int]:
        return events(TGLSampler(graph, t).sample(zero, np.array([at]), [fanout])[0][0].sampled)[0]

    def exact(before: int, fanout: int) -> list[int]:
        return events(graph.sample(zero, zero + before, fanout))[0]

    assert exact(4, 10) == [0, 1, 2, 3] and compat(40, 10) == [1, 2, 3]  # the oldest is missing
    assert exact(4, 2) == [2, 3] and compat(40, 2) == [2, 3]  # unless the window does not reach it
    assert exact(1, 10) == [0] and compat(20, 10) == []
    assert exact(2, 2) == [0, 1] and compat(30, 2) == []  # ties fill the window, and are dropped
    assert compat(30, 3) == [1]
    assert compat(3, 3, stream.t / 10) == [1] and compat(2, 1, np.array([0.5, 1, 2, 2])) == [1]  # below 4 a time less 1e-7 is another
    big = np.array([2**24 - 2, 2**24, 2**24 + 1, 2**24 + 2])  # the third is the second in float32
    assert exact(2, 1) == [1] and compat(2**24 + 1, 1, big) == []
    assert exact(3, 2) == [1, 2] and compat(2**24 + 2, 2, big) == [2]


def test_a_root_sees_its_own_batch_and_loses_to_a_later_one() -> None:
    stream = stream_of([(0, 1, 10.0 * k) for k in range(1, 9)])
    graph, node, at = TCSR.of(stream), np.zeros(2, np.int32), np.array([50.0, 80.0])
    assert events(TGLSampler(graph, stream.t).sample(node, at, [3])[0][0].sampled) == [[], [5, 6]]
    alone = TGLSampler(graph, stream.t)
    assert events(alone.sample(node[:1], at[:1], [3])[0][0].sampled) == [[2, 3]]
    assert events(alone.sample(node[:1], at[1:], [3])[0][0].sampled) == [[5, 6]]
    assert events(alone.sample(node[:1], at[:1], [3])[0][0].sampled) == [[]]  # the pointer stays at 80
    alone.reset()
    assert events(alone.sample(node[:1], at[:1], [3])[0][0].sampled) == [[2, 3]]


def test_draws_are_uniform_with_replacement() -> None:
    """Chi-square of the 16 ordered pairs of 4 events, the oldest among them, over 20,000 roots."""
    count, of = 20_000, 4
    stream = EventStream(count, np.tile(np.arange(count, dtype=np.int32), of), np.zeros(count * of, np.int32), np.arange(4, count * of + 4))
    graph, node = TCSR.of(stream, both=False), np.arange(count, dtype=np.int32)
    sampler = TGLSampler(graph, stream.t, "uniform")
    found = []
    for seed in range(2):
        [[hop]] = sampler.sample(node, np.full(count, 10.0**6), [2], seed)
        found.append(hop.sampled.event // count)
        times = np.bincount(found[-1] @ np.array([of, 1]), minlength=16).reshape(4, 4)
        assert (np.tril(times, -1) == 0).all()  # slots ascend
        expected = np.where(np.eye(4) > 0, 1, 2) * count / 16
        assert ((times - expected) ** 2 / expected)[np.triu_indices(4)].sum() < 45  # 9 degrees of freedom: once in a million
    assert 0 < (found[0] == found[1]).all(1).mean() < 0.3
    again = sampler.sample(node[::-1].copy(), np.full(count, 10.0**6), [2], 1)[0][0].sampled.event
    assert np.array_equal(again[::-1] // count, found[1])  # of the root, not of its place


def test_bad_arguments_are_one_clear_line() -> None:
    stream = stream_of([(0, 1, 10), (1, 2, 20)])
    graph, one, at = TCSR.of(stream), np.zeros(1, np.int32), np.ones(1)
    for bad, message in (
        ({"policy": "recnt"}, "did you mean 'recent'"),
        ({"t": stream.t[:1]}, "t has 1 times, the T-CSR an event 1"),
        ({"t": stream.t[::-1]}, r"t\[1\]: time falls"),
        ({"t": np.array([0, 1e39])}, r"t\[1\]: time is not finite in float32"),
        ({"t": stream.t.astype(F)}, "expected an array of int64 or float64"),
        ({"windows": 0}, "windows=0"),
        ({"windows": 2}, "windows=2 of duration=0.0; expected 1 or more, and a duration above 0"),
        ({"duration": float("nan")}, "duration=nan"),
        ({"duration": -1.0}, "duration=-1.0"),
    ):
        with pytest.raises(UserError, match=message):
            TGLSampler(graph, **{"t": stream.t} | bad)  # type: ignore[arg-type]
    sampler = TGLSampler(graph, stream.t)
    for args, message in (
        ((one + NODES, at, [1]), "node ids must lie in"),
        ((one - 2, at, [1]), "node ids must lie in"),
        ((one.astype(np.int64), at, [1]), "expected an array of int32"),
        ((one, np.ones(2), [1]), r"expected shape \(1\)"),
        ((one, np.full(1, np.nan), [1]), r"time\[0\]: time is not finite"),
        ((one, at, [1, 1025]), "expected 0 to 1024"),
        ((one, at, [-1]), "expected 0 to 1024"),
        ((one, at, [1], -1), "a seed"),
    ):
        with pytest.raises(UserError, match=message):
            sampler.sample(*args)  # type: ignore[arg-type]


def test_nothing_to_sample_from() -> None:
    stream = stream_of([])
    [[first, second]] = TGLSampler(TCSR.of(stream), stream.t).sample(np.array([-1, 0, 5], np.int32), np.ones(3), [2, 3])
    assert not first.sampled.counts.any() and second.sampled.event.shape == (6, 3) and (second.node == -1).all()
    assert first.time.dtype == second.time.dtype == F and not second.time.any()
