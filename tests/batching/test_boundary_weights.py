"""What boundary decay has beside the paper: a neighbour at least, a cap of weights, and rows that are cached in place of nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from boundary_case import all_roots, cut, decays, found_by, local, one_root, thetas
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from stream_search import NODES, earlier

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.sampling import boundary, neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.cuda_ext.native.arguments import CachedRows
from chronoscale.cuda_ext.sampling import boundary_decay as kernel
from chronoscale.datasets.streams import draws
from chronoscale.errors import UserError

LIMIT = 6.1  # standard errors
caps = st.sampled_from([0.0, 1.0, 1.5, 4.0])
Case = tuple[IndexedStream, LocalPart]


@st.composite
def cached_cut(draw: Any) -> Case:
    """A stream in parts, and which rows of others a rank has cached."""
    source, part = draw(cut())
    places = st.integers(-1, 3)
    node = np.array(draw(st.lists(places, min_size=NODES, max_size=NODES)), np.int32)
    event = np.array(draw(st.lists(places, min_size=len(source.stream), max_size=len(source.stream))), np.int32)
    return source, part._replace(cached=CachedRows(node, draw(st.sampled_from([event, None]))))


boundaries = st.builds(Boundary, thetas, decays, st.booleans(), caps, st.booleans(), st.booleans())


def there(case: Case, neighbor: int, event: int) -> bool:
    """Whether the rows of a remote neighbour can be read without asking for them."""
    part = case[1]
    assert part.cached is not None
    node = part.parts.node[neighbor] in (part.rank, SHARED) or part.cached.node[neighbor] >= 0
    return bool(node and (part.cached.event is None or part.parts.event[event] == part.rank or part.cached.event[event] >= 0))


@needs_cpu
@given(cached_cut(), boundaries, st.integers(0, 6), st.integers(0, 2**64 - 1))
def test_the_kernel_equals_its_reference(case: Case, of: Boundary, fanout: int, seed: int) -> None:
    mine, theirs = (found_by(case, of, fanout, seed, place) for place in PLACES)
    for name in ("neighbor", "event", "cached", "counts"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    np.testing.assert_allclose(mine.weight, theirs.weight, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@given(case=cached_cut(), decay=decays, theta=st.sampled_from([0.01, 0.1, 0.9]), complete=st.booleans(), stale=st.booleans(), cap=caps)
def test_no_draw_is_without_a_neighbour_where_there_was_one(
    place: str, case: Case, decay: float, theta: float, complete: bool, stale: bool, cap: float
) -> None:
    of = Boundary(theta, decay, complete, cap, True, stale)
    recent = case[0].tcsr.sample(*all_roots(case[0]), 4)
    assert np.array_equal(found_by(case, of, 4, 3, place).counts > 0, recent.counts > 0)


@pytest.mark.parametrize("place", PLACES)
@given(case=cached_cut(), theta=thetas, decay=decays, complete=st.booleans(), fanout=st.integers(0, 6))
def test_what_is_cached_is_there_beside_what_is_sampled(
    place: str, case: Case, theta: float, decay: float, complete: bool, fanout: int
) -> None:
    """The same coins as without a cache; all remote neighbours whose rows are there have a slot of weight 1."""
    plain, stale = (found_by(case, Boundary(theta, decay, complete, stale=flag), fanout, 5, place) for flag in (False, True))
    assert not plain.cached.any()
    for i, (node, before) in enumerate(zip(*(column.tolist() for column in all_roots(case[0])), strict=True)):
        every = earlier(case[0].stream, node, 0, before) if node >= 0 else []
        recent = every[max(len(every) - fanout, 0) :]
        slots, sampled = (
            list(zip(*(getattr(one, name)[i, : one.counts[i]].tolist() for name in ("neighbor", "event")), strict=True))
            for one in (stale, plain)
        )
        readable = [one for one in recent if theta < 1 and not local(case[1], *one) and there(case, *one)]
        inside = [one for one in recent if one in slots]
        assert inside == [one for one in recent if one in sampled or one in readable]
        flagged = [one for one, flag in zip(slots, stale.cached[i], strict=False) if flag]
        assert flagged == [one for one in readable if one not in sampled] and not stale.cached[i, stale.counts[i] :].any()
        weights = dict(zip(slots, stale.weight[i].tolist(), strict=False))
        before_weights = dict(zip(sampled, plain.weight[i].tolist(), strict=False))
        assert all(weights[one] == (1 if one in readable else before_weights[one]) for one in inside)
        if complete:
            older = [one for one in every[: len(every) - len(recent)][-16 * fanout :] if local(case[1], *one)] if fanout else []
            assert len(slots) == min(len(inside) + len(older), fanout)


def many(case: tuple[IndexedStream, LocalPart, np.ndarray], of: Boundary, fanout: int, place: str = "cpu") -> np.ndarray:
    """Weight of each recent neighbour, 0 where it is not sampled, of as many roots as see the same ones, each with its own coins."""
    source, part, _ = case
    roots = 100_000 if place == "cpu" else 3_000
    with pytest.MonkeyPatch.context() as patch:
        if place == "reference":
            patch.setattr(kernel, "cpu_library_or_warn", lambda what: None)
        node, before = np.zeros(roots, np.int32), np.arange(40, 40 + roots, dtype=np.int32)
        sampled = boundary.sample(source.tcsr, source.stream.t, part, node, before, fanout, of, 9)
    weights = np.zeros((roots, 41))
    weights[np.arange(roots)[:, None], sampled.event] = np.where(sampled.event < 0, 0, sampled.weight)
    return weights[:, 40 - fanout : 40]


def chances(source: IndexedStream, of: Boundary, fanout: int) -> np.ndarray:
    """Eq. 17's probabilities of the recent neighbours, all of them remote, at least theta / cap."""
    t = source.stream.t[-fanout:]
    share = np.exp(of.decay * (t - t[-1]))
    p = of.theta * fanout * share / share.sum()
    return np.minimum(np.maximum(p, of.theta / of.cap) if of.cap else p, 1)


@needs_cpu
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("theta", "decay", "cap"), [(0.1, 0.0, 0.0), (0.3, 0.02, 0.0), (0.3, 0.05, 2.0), (0.5, 1.0, 0.0)])
def test_coins_are_tossed_until_one_is_sampled(place: str, theta: float, decay: float, cap: float) -> None:
    """Every outcome of four coins has the probability that independent ones have, given that one is sampled; weights are 1 over the
    probability of their neighbour, so that sums are unbiased."""
    case, of = one_root(remote_share=1.0), Boundary(theta, decay, False, cap, True)
    weights, p = many(case, of, 4, place), chances(case[0], of, 4)
    some = 1 - np.prod(1 - p)
    for sampled in product((False, True), repeat=4):
        mask = np.array(sampled)
        exact = np.prod(np.where(mask, p, 1 - p)) / some if mask.any() else 0.0
        share = ((weights > 0) == mask).all(1).mean()
        assert abs(share - exact) <= LIMIT * np.sqrt(exact * (1 - exact) / len(weights)), sampled
    np.testing.assert_allclose(np.broadcast_to(some / p, weights.shape)[weights > 0], weights[weights > 0], rtol=1e-5)


@needs_cpu
def test_a_single_remote_neighbour_is_always_sampled() -> None:
    assert (many(one_root(remote_share=1.0), Boundary(0.1, 0.02, False, at_least_one=True), 1) == 1).all()


@needs_cpu
def test_a_local_or_a_cached_neighbour_is_enough() -> None:
    """Coins are then tossed once."""
    source, part, remote = one_root()
    of = Boundary(0.1, 0.01, False)
    assert not remote.all()
    assert np.array_equal(*(many((source, part, remote), one, 12) for one in (of, Boundary(0.1, 0.01, False, at_least_one=True))))
    source, part, _ = one_root(remote_share=1.0)
    node = np.full(41, -1, np.int32)
    node[40] = 0  # of the latest event
    cached = (source, part._replace(cached=CachedRows(node, None)), remote)
    once = many((source, part, remote), of, 4)
    assert np.array_equal(many(cached, Boundary(0.1, 0.01, False, at_least_one=True, stale=True), 4)[:, :-1], once[:, :-1])
    assert (once == 0).all(1).any()


@needs_cpu
@pytest.mark.parametrize("cap", [1.0, 2.0, 5.0])
def test_no_weight_is_above_the_cap(cap: float) -> None:
    """What would have more is sampled more often, which costs at most 1 / cap of what the paper samples; sums stay unbiased."""
    case = one_root(remote_share=1.0)
    free, capped = (many(case, Boundary(0.3, 0.05, False, most), 12) for most in (0.0, cap))
    p = chances(case[0], Boundary(0.3, 0.05, False, cap), 12)
    assert free.max() > cap / 0.3 * (1 + 1e-6) >= capped.max()
    frequency, error = (capped > 0).mean(0), np.sqrt(p * (1 - p) / len(capped))
    assert (np.abs(frequency - p) <= LIMIT * error).all() and p.sum() <= 0.3 * 12 * (1 + 1 / cap)
    assert (np.abs(capped.mean(0) - 1) <= LIMIT * capped.std(0) / np.sqrt(len(capped))).all()


@given(cached_cut(), st.sampled_from([(3,), (2, 3)]), st.integers(0, 9))
def test_rows_that_may_be_stale_are_read_by_nobody_else(case: Case, fanouts: tuple[int, ...], seed: int) -> None:
    """Against sets, node by node: roots, and neighbours of slots that are not read from the cache, hop by hop."""
    source, part = case
    of = Boundary(0.3, 0.1, True, 0.0, True, True)
    node, before = (column[3:9] for column in all_roots(source))  # of two nodes: others are neighbours alone
    roots = (node, before, np.full(node.size, source.stream.t[-1]))
    sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, Sampling(fanouts, boundary=of), seed, local_part=part)
    fresh, every, level = set(node.tolist()), set(node.tolist()), {(int(v), int(e)) for v, e in zip(node, before, strict=True)}
    for hop, fanout in enumerate(fanouts):
        key = draws.derive_key(draws.derive_key(seed, 0), hop)
        targets = [np.array(column, np.int32) for column in zip(*sorted(level), strict=True)] if level else [np.empty(0, np.int32)] * 2
        drawn = boundary.sample(source.tcsr, source.stream.t, part, *targets, fanout, of, key)
        there = drawn.event >= 0
        fresh |= set(drawn.neighbor[there & ~drawn.cached].tolist())
        every |= set(drawn.neighbor[there].tolist())
        level = set(zip(drawn.neighbor[there].tolist(), drawn.event[there].tolist(), strict=True))
    assert sampled.stale is not None and sampled.stale.shape == sampled.nodes.shape
    assert set(sampled.nodes[sampled.stale].tolist()) == every - fresh
    plain = Sampling(fanouts, boundary=Boundary(0.3))
    assert neighbourhood.sample(source.tcsr, source.stream.t, roots, plain, seed, local_part=part).stale is None


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^Boundary\.cap: expected a finite number of 0 or more, got -1\.0$"):
        Boundary(0.1, cap=-1.0)
    with pytest.raises(
        UserError, match=r"^Boundary\.cap: expected 0 or at least 1, the weight of a neighbour of probability theta, got 0\.5$"
    ):
        Boundary(0.1, cap=0.5)
    source, part, _ = one_root()
    for cached, message in (
        (CachedRows(np.zeros(40, np.int32), None), r"^the places of cached nodes is <i4 \[40\]; expected contiguous int32 \[41\]$"),
        (CachedRows(np.zeros(41, np.int32), np.zeros(3, np.int32)), r"^the places of cached events is <i4 \[3\]; expected contiguous"),
    ):
        with pytest.raises(UserError, match=message):
            many((source, part._replace(cached=cached), np.ones(12)), Boundary(0.1, stale=True), 3)
    arrays = (source.tcsr.indptr, source.tcsr.neighbor, source.tcsr.event)
    owned = kernel.Ownership(part.parts.node, part.parts.event, 0)
    for least in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserError, match=r"^boundary: .*least="):
            kernel.sample(arrays, source.stream.t, owned, np.zeros(1, np.int32), np.ones(1, np.int32), 3, 0.5, least=least)
