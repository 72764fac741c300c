"""T-CSR and the neighbours that are sampled from it, against the definition: all events of a node before a given one, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.reference import temporal as temporal_reference
from chronoscale.cuda_ext.sampling import temporal
from chronoscale.cuda_ext.sampling.temporal import POLICIES, Policy, SampledNeighbors, sample
from chronoscale.datasets.streams import tcsr
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError

NODES = 7  # 6 is isolated
nodes = st.integers(0, NODES - 2)
bound = st.integers(-1, 61)
streams = st.lists(st.tuples(nodes, nodes, st.integers(0, 5)), max_size=60).map(
    lambda events: stream_of(sorted(events, key=lambda event: event[2]))  # ties, self-loops, repeated edges
)


def stream_of(events: list[tuple[int, int, int]]) -> EventStream:
    src, dst, t = (np.array(column, dtype) for column, dtype in zip(zip(*events, strict=True), "iiq", strict=True)) if events else (
        np.zeros(0, "i"), np.zeros(0, "i"), np.zeros(0, "q"))  # fmt: skip
    return EventStream(NODES, src, dst, t)


def earlier(stream: EventStream, v: int, bound: int, both: bool, since: int = 0) -> list[tuple[int, int]]:
    """(event, other end) by the definition."""
    pairs = zip(stream.src.tolist(), stream.dst.tolist(), strict=True)
    found = [(e, b if v == a else a) for e, (a, b) in enumerate(pairs) if since <= e < bound and (v == a or (both and v == b))]
    return sorted(found)


def rows(found: SampledNeighbors) -> list[list[tuple[int, int]]]:
    return [
        list(zip(event[:n], neighbor[:n], strict=True)) for neighbor, event, n in zip(*(column.tolist() for column in found), strict=True)
    ]


def shared(stream: EventStream, bounds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    node = np.repeat(np.arange(-1, NODES), len(bounds)).astype(np.int32)
    return node, np.tile(bounds, NODES + 1).astype(np.int32)


@given(streams, st.booleans(), st.integers(0, 12), st.lists(bound, min_size=1, max_size=6), st.integers(0, 2**64 - 1))
def test_neighbours_are_those_of_the_definition(stream: EventStream, both: bool, fanout: int, bounds: list[int], seed: int) -> None:
    graph, (node, before) = TCSR.of(stream, both), shared(stream, bounds)
    all_of = [earlier(stream, v, b, both) for v, b in zip(node.tolist(), before.tolist(), strict=True)]
    assert rows(graph.sample(node, before, fanout)) == [there[max(0, len(there) - fanout) :] for there in all_of]
    found = graph.sample(node, before, fanout, "uniform", seed)
    for some, there in zip(rows(found), all_of, strict=True):
        assert len(some) == min(fanout, len(there)) and some == sorted(set(some)) and set(some) <= set(there)
    for column in (found.neighbor, found.event):
        assert (column[np.arange(fanout) >= found.counts[:, None]] == -1).all()


@given(streams, st.booleans(), st.integers(0, 12), st.lists(st.tuples(bound, bound), min_size=1, max_size=6), st.integers(0, 2**64 - 1))
def test_neighbours_lie_between_two_bounds(stream: EventStream, both: bool, fanout: int, bounds: list[tuple[int, int]], seed: int) -> None:
    """Windows may be empty, or end before they begin."""
    graph, (node, before), (_, since) = TCSR.of(stream, both), *(shared(stream, list(ends)) for ends in zip(*bounds, strict=True))
    asked = zip(node.tolist(), before.tolist(), since.tolist(), strict=True)
    all_of = [earlier(stream, v, b, both, first) for v, b, first in asked]
    assert rows(graph.sample(node, before, fanout, since=since)) == [there[max(0, len(there) - fanout) :] for there in all_of]
    found = graph.sample(node, before, fanout, "uniform", seed, since=since)
    for some, there in zip(rows(found), all_of, strict=True):
        assert len(some) == min(fanout, len(there)) and some == sorted(set(some)) and set(some) <= set(there)
    for column in (found.neighbor, found.event):
        assert (column[np.arange(fanout) >= found.counts[:, None]] == -1).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lower_bound_that_leaves_nothing_out_changes_nothing(policy: Policy) -> None:
    stream = hubs(5000, 80)
    graph, node, before = TCSR.of(stream), stream.src, np.arange(5000, dtype=np.int32)
    first = np.array([graph.event[graph.indptr[v]] for v in node], np.int32)
    for since in (np.zeros_like(node), np.full_like(node, -(2**31)), first):
        for a, b in zip(graph.sample(node, before, 3, policy, 7), graph.sample(node, before, 3, policy, 7, since=since), strict=True):
            assert np.array_equal(a, b)


@given(streams, st.sampled_from(POLICIES), st.integers(0, 5), st.integers(0, 2**64 - 1), st.sampled_from((None, -1, 0, 1, 7, 30, 70)))
def test_the_native_sampler_equals_its_reference(stream: EventStream, policy: Policy, fanout: int, seed: int, low: int | None) -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    graph, (node, before) = TCSR.of(stream), shared(stream, [0, 20, 60])
    since = None if low is None else np.full_like(node, low)
    mine = graph.sample(node, before, fanout, policy, seed, since=since)
    theirs = [np.empty_like(column) for column in mine]
    temporal_reference.sample((graph.indptr, graph.neighbor, graph.event), node, before, since, policy == "uniform", seed, *theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def hubs(events: int = 60_000, count: int = 500) -> EventStream:
    rng = np.random.default_rng(4)
    src, dst = ((rng.pareto(0.8, events) * 3).astype(np.int64) % count for _ in range(2))
    return EventStream(count, src.astype(np.int32), dst.astype(np.int32), np.arange(events))


@pytest.mark.parametrize("span", [None, 2000])
@pytest.mark.parametrize("policy", POLICIES)
def test_answers_depend_on_neither_threads_nor_batches(policy: Policy, span: int | None) -> None:
    stream = hubs()
    graph, node = TCSR.of(stream), np.concatenate([stream.src, stream.dst])
    before = np.tile(np.arange(len(stream)), 2).astype(np.int32)
    since = None if span is None else before - span
    whole = graph.sample(node, before, 10, policy, 3, 1, since)
    for threads in range(2, 9):
        for a, b in zip(whole, graph.sample(node, before, 10, policy, 3, threads, since), strict=True):
            assert np.array_equal(a, b)
    order = np.random.default_rng(0).permutation(len(node))[:5000]
    some = None if since is None else since[order]
    for a, b in zip(whole, graph.sample(node[order], before[order], 10, policy, 3, since=some), strict=True):
        assert np.array_equal(a[order], b)
    other = graph.sample(node, before, 10, policy, 4, since=since)
    assert np.array_equal(whole.event, other.event) == (policy == "recent")


def test_uniform_is_uniform() -> None:
    """Chi-square of the 220 triples of 12 events over 40,000 roots, four seeds: a false alarm once in a million, were seeds drawn anew."""
    nodes, of = 40_000, 12
    stream = EventStream(nodes, np.tile(np.arange(nodes, dtype=np.int32), of), np.zeros(nodes * of, np.int32), np.arange(nodes * of))
    graph, node = TCSR.of(stream, both=False), np.arange(nodes, dtype=np.int32)
    drawn = []
    for seed in range(4):
        places = graph.sample(node, np.full(nodes, nodes * of, np.int32), 3, "uniform", seed).event // nodes
        drawn.append(places @ np.array([of * of, of, 1]))
        times = np.unique(drawn[-1], return_counts=True)[1]
        assert len(times) == 220 and ((times - nodes / 220) ** 2 / (nodes / 220)).sum() < 330
    for a, b in ((drawn[0], drawn[1]), (drawn[2], drawn[3]), (drawn[0][:-1], drawn[0][1:])):  # neither seeds nor roots draw alike
        assert abs((a == b).mean() - 1 / 220) < 5 * np.sqrt(1 / 220 / nodes)


def test_hops_go_on_from_the_events_that_led_there() -> None:
    stream = hubs(3000, 60)
    graph, node, before = TCSR.of(stream), np.arange(60, dtype=np.int32), 50 * np.arange(60, dtype=np.int32)
    first, second = graph.hops(node, before, (4, 3))
    assert np.array_equal(second.before, first.sampled.event.ravel())
    assert np.array_equal(second.node, first.sampled.neighbor.ravel()) and second.sampled.neighbor.shape == (240, 3)
    at = second.node >= 0
    assert (second.sampled.counts[~at] == 0).all() and (~at).any() and (second.sampled.counts[at] > 0).any()
    with pytest.raises(UserError, match="a seed"):
        graph.hops(node, before, (4, 3), "uniform", seed=-1)
    assert (second.sampled.event[at] < second.before[at][:, None]).all() and (first.sampled.event < before[:, None]).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_all_hops_of_a_root_keep_to_its_lower_bound(policy: Policy) -> None:
    stream = hubs(3000, 60)
    graph, node = TCSR.of(stream), np.arange(60, dtype=np.int32)
    before = 50 * node
    since = before - 40 * (node % 5)
    for hop in (hops := graph.hops(node, before, (4, 3, 2), policy, 5, since=since)):
        low = since.repeat(len(hop.node) // 60)
        there = [earlier(stream, v, b, True, s) for v, b, s in zip(hop.node.tolist(), hop.before.tolist(), low.tolist(), strict=True)]
        assert hop.sampled.counts.tolist() == [min(len(some), hop.sampled.event.shape[1]) for some in there]
        assert all(set(some) <= set(every) for some, every in zip(rows(hop.sampled), there, strict=True))
    assert hops[2].sampled.counts.any()


def test_a_mapped_stream_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = hubs(5000, 80)
    whole = TCSR.of(stream)
    monkeypatch.setattr(tcsr, "BLOCK", 777)
    made, loaded = TCSR.of(stream, folder=tmp_path / "t"), TCSR.load(tmp_path / "t")
    for name in ("indptr", "neighbor", "event"):
        for other in (made, loaded):
            assert np.array_equal(getattr(whole, name), getattr(other, name))
    assert isinstance(loaded.neighbor, np.memmap) and isinstance(made.event, np.memmap)
    with pytest.raises(UserError, match="already exists"):
        TCSR.of(stream, folder=tmp_path / "t")
    (tmp_path / "t" / "event.npy").unlink()
    with pytest.raises(UserError, match=r"event\.npy: no such file"):
        TCSR.load(tmp_path / "t")
    node, before = stream.src, np.arange(5000, dtype=np.int32)
    for a, b in zip(whole.sample(node, before, 5), loaded.sample(node, before, 5), strict=True):
        assert np.array_equal(a, b)


def test_bad_arguments_are_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, one = TCSR.of(stream_of([(0, 1, 0), (1, 2, 1)])), np.zeros(1, np.int32)
    with pytest.raises(UserError, match="did you mean 'recent'"):
        graph.sample(one, one, 2, "recnt")  # type: ignore[arg-type]
    for node in (NODES, -2):
        with pytest.raises(UserError, match=r"node ids must lie in"):
            graph.sample(np.full(1, node, np.int32), one, 2)
    for bad in ({"fanout": -1}, {"fanout": 1025}, {"fanout": 2, "seed": -1}, {"fanout": 2, "seed": 2**64}, {"fanout": 2, "threads": -1}):
        with pytest.raises(UserError, match="expected"):
            graph.sample(one, one, **bad)
    with pytest.raises(UserError, match=r"before \[2\]"):
        graph.sample(one, np.zeros(2, np.int32), 2)
    with pytest.raises(UserError, match=r"since \[2\]"):
        graph.sample(one, one, 2, since=np.zeros(2, np.int32))
    with pytest.raises(UserError, match="since holds float64 numbers"):
        graph.sample(one, one, 2, since=np.zeros(1))
    with pytest.raises(UserError, match="must ascend from 0 to 2"):
        TCSR(np.array([0, 3, 2]), one.repeat(2), one.repeat(2))
    with pytest.raises(UserError, match="must ascend from 0 to 1"):
        TCSR(np.array([0, 2]), one, one)
    for src in (-1, 3):
        with pytest.raises(UserError, match=r"node ids must lie in \[0, 3\)"):
            temporal.count(np.full(1, src, np.int32), one, True, np.zeros(3, np.int64))
    for wrong, message in (
        (np.full(1, 2**32), "int64 numbers, not all of which are int32"),
        (np.zeros(1), "float64 numbers"),
        (np.zeros((1, 1), np.int32), r"src \[1, 1\] and dst \[1\]"),
    ):
        with pytest.raises(UserError, match=message):
            temporal.count(wrong, one, True, np.zeros(3, np.int64))
    assert graph.sample(np.ones(1, np.int64), 2 * one + 2, 2).counts == [2]  # type: ignore[arg-type]
    cursor, room = np.zeros(3, np.int64), np.zeros(1, np.int32)
    with pytest.raises(UserError, match=r"entries within their arrays|no room"):
        temporal.fill(np.zeros(2, np.int32), one.repeat(2), 0, False, cursor, room, room.copy())
    huge = EventStream(1, one, one, np.zeros(1, np.int64))
    monkeypatch.setattr(EventStream, "__len__", lambda self: 2**31)
    with pytest.raises(UserError, match="2,147,483,648 events are too many"):
        TCSR.of(huge)


def strange(array: np.ndarray) -> list[np.ndarray]:
    """The same numbers, or fewer, as no kernel reads them."""
    frozen = array.copy()
    frozen.setflags(write=False)
    return [array.astype(array.dtype.newbyteorder()), np.repeat(array, 2)[::2], array.astype(np.int8), array[:-1], array[None], frozen]


def test_arrays_of_another_kind_never_reach_a_kernel() -> None:
    stream = hubs(300, 20)
    graph, node, before = TCSR.of(stream), stream.src, np.arange(300, dtype=np.int32)
    rows = [graph.indptr, graph.neighbor, graph.event]
    for at in range(3):
        for wrong in strange(rows[at])[:-1]:
            with pytest.raises(UserError):
                sample((*rows[:at], wrong, *rows[at + 1 :]), node, before, 3)  # type: ignore[arg-type]
    for number in (10**12, -5):
        broken = graph.indptr.copy()
        broken[1:-1] = number
        with pytest.raises(UserError, match=r"within the(ir arrays)?"):
            sample((broken, graph.neighbor, graph.event), node, before, 3)
    degree, cursor = np.zeros(20, np.int64), graph.indptr[:-1].copy()
    for wrong in (strange(degree)[i] for i in (0, 1, 2, 4, 5)):
        with pytest.raises(UserError):
            temporal.count(stream.src, stream.dst, True, wrong)
    given = [cursor, graph.neighbor.copy(), graph.event.copy()]
    for at in range(3):
        for wrong in strange(given[at]):
            with pytest.raises(UserError):
                temporal.fill(stream.src, stream.dst, 0, True, *(wrong if i == at else a.copy() for i, a in enumerate(given)))
    for first in (-1, 2**31 - 1):
        with pytest.raises(UserError, match="numbers below"):
            temporal.fill(stream.src, stream.dst, first, True, *given)


def test_without_a_library_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = hubs(300, 20)
    graph = TCSR.of(stream)
    monkeypatch.setattr(temporal, "cpu_library_or_warn", lambda what: None)
    slow = TCSR.of(stream)
    assert np.array_equal(slow.neighbor, graph.neighbor) and np.array_equal(slow.event, graph.event)
    monkeypatch.undo()
    before = np.arange(300, dtype=np.int32)
    fast = [graph.sample(stream.src, before, 4, "uniform", 9, since=since) for since in (None, before // 2)]
    monkeypatch.setattr(temporal, "cpu_library_or_warn", lambda what: None)
    for mine, since in zip(fast, (None, before // 2), strict=True):
        for a, b in zip(mine, slow.sample(stream.src, before, 4, "uniform", 9, since=since), strict=True):
            assert np.array_equal(a, b)
