"""Boundary-decay sampling: both implementations as one contract, unbiased and within the paper's bounds of variance."""

from __future__ import annotations

import os

import numpy as np
import pytest
from boundary_case import all_roots, cut, decays, found_by, local, one_root, thetas
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from stream_search import NODES, earlier, source_of

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling, sample
from chronoscale.cuda_ext.reference import boundary_decay as boundary_decay_reference
from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.cuda_ext.sampling import boundary_decay as kernel
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError

boundaries = st.builds(Boundary, thetas, decays, st.booleans())


@needs_cpu
@given(cut(), boundaries, st.integers(0, 6), st.integers(0, 2**64 - 1))
def test_the_kernel_equals_its_reference(case: tuple[IndexedStream, LocalPart], of: Boundary, fanout: int, seed: int) -> None:
    mine, theirs = (found_by(case, of, fanout, seed, place) for place in PLACES)
    for name in ("neighbor", "event", "counts"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    np.testing.assert_allclose(mine.weight, theirs.weight, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@given(case=cut(), of=boundaries, fanout=st.integers(0, 6))
def test_slots_are_those_of_the_definition(place: str, case: tuple[IndexedStream, LocalPart], of: Boundary, fanout: int) -> None:
    """All local of the recent ones, some remote of them with the weight of eq. 17, older local ones where there is room."""
    source, seat = case
    sampled, stream = found_by(case, of, fanout, 5, place), source.stream
    for i, (node, before) in enumerate(zip(*(column.tolist() for column in all_roots(source)), strict=True)):
        every = earlier(stream, node, 0, before) if node >= 0 else []
        recent, old = every[max(len(every) - fanout, 0) :], every[: max(len(every) - fanout, 0)]
        remote = [one for one in recent if not local(seat, *one)]
        shares = np.exp(of.decay * (stream.t[[e for _, e in remote]] - stream.t[remote[-1][1]]).astype(float)) if remote else np.ones(0)
        chances = np.minimum(of.theta * len(remote) * shares / shares.sum(), 1) if of.theta < 1 else np.ones(len(remote))
        size = sampled.counts[i]
        slots = list(zip(sampled.neighbor[i, :size].tolist(), sampled.event[i, :size].tolist(), strict=True))
        sampled_remote = [one for one in remote if one in slots]
        inside = [one for one in recent if one in sampled_remote or one not in remote]
        close = [one for one in old[max(len(old) - 16 * fanout, 0) :] if local(seat, *one)] if of.complete else []
        assert slots == [*close[max(len(close) - fanout + len(inside), 0) :], *inside]
        weights = dict(zip(remote, 1 / np.where(chances > 0, chances, np.nan), strict=True))
        np.testing.assert_allclose(sampled.weight[i, :size], [weights.get(one, 1.0) for one in slots], rtol=1e-6)
        for column, empty in ((sampled.neighbor, -1), (sampled.event, -1), (sampled.weight, 1)):
            assert (column[i, size:] == empty).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", PLACES)
@given(case=cut(), decay=decays, fanout=st.integers(0, 6), complete=st.booleans())
def test_the_ends_are_recent_and_local_sampling(
    place: str, case: tuple[IndexedStream, LocalPart], decay: float, fanout: int, complete: bool
) -> None:
    source, seat = case
    recent = source.tcsr.sample(*all_roots(source), fanout)
    for theta in (1.0, 2.5):
        sampled = found_by(case, Boundary(theta, decay, complete), fanout, 1, place)
        for name in ("neighbor", "event", "counts"):
            np.testing.assert_array_equal(getattr(sampled, name), getattr(recent, name))
        assert (sampled.weight == 1).all()
    none = found_by(case, Boundary(0, decay, complete), fanout, 1, place)
    there = none.event >= 0
    assert all(local(seat, *one) for one in zip(none.neighbor[there].tolist(), none.event[there].tolist(), strict=True))
    assert (none.weight == 1).all()
    if not complete:
        near = [sum(local(seat, *one) for one in zip(*row, strict=True) if one[1] >= 0) for row in zip(*(
            column.tolist() for column in (recent.neighbor, recent.event)), strict=True)]  # fmt: skip
        assert none.counts.tolist() == near


def hubs(events: int = 40_000, nodes: int = 300, count: int = 3, seed: int = 4) -> tuple[IndexedStream, EventPartition]:
    rng = np.random.default_rng(seed)
    src, dst = ((rng.pareto(0.8, events) * 3).astype(np.int64) % nodes for _ in range(2))
    stream = EventStream(nodes, src.astype(np.int32), dst.astype(np.int32), np.sort(rng.random(events)) * events)
    node = rng.integers(0, count, nodes).astype(np.int32)
    node[:5] = SHARED
    return IndexedStream(stream, TCSR.of(stream)), EventPartition(node, rng.integers(0, count, events).astype(np.int32), count)


@needs_cpu
@pytest.mark.parametrize("complete", [True, False])
def test_answers_depend_on_neither_threads_nor_batches(complete: bool) -> None:
    source, parts = hubs()
    node, before = np.tile(source.stream.src, 2), np.tile(np.arange(40_000, dtype=np.int32), 2)
    given_to = (source.tcsr, source.stream.t, LocalPart(parts, 1))
    of = Boundary(0.3, 1e-3, complete)
    whole = boundary.sample(*given_to, node, before, 10, of, 3, 1)
    assert len(np.unique(whole.weight)) > 1000 and (whole.counts < 10).any()
    order = np.random.default_rng(0).permutation(len(node))[:5000]
    others = [boundary.sample(*given_to, node, before, 10, of, 3, threads) for threads in range(2, 9)]
    with bound_threads.threads_bound_to(sorted(os.sched_getaffinity(0))[:2]):
        others.append(boundary.sample(*given_to, node, before, 10, of, 3))
    for a, *rest in zip(whole, *others, strict=True):
        assert all(np.array_equal(a, b) for b in rest)
    for a, b in zip(whole, boundary.sample(*given_to, node[order], before[order], 10, of, 3), strict=True):
        assert np.array_equal(a[order], b)
    assert not np.array_equal(whole.event, boundary.sample(*given_to, node, before, 10, of, 4).event)


def test_times_are_what_they_differ_by() -> None:
    """Nanoseconds since 1970 are exact, and very early and late times no trouble."""
    few = source_of([(0, 1 + k % 4, k) for k in range(8)])
    for start in (0, 1_700_000_000_000_000_000, -(2**62)):
        stream = EventStream(NODES, few.stream.src, few.stream.dst, few.stream.t + start)
        parts = EventPartition(np.zeros(NODES, np.int32), np.ones(8, np.int32), 2)
        for seed in range(20):
            case = IndexedStream(stream, few.tcsr), LocalPart(parts, 0)
            sampled, plain = (found_by(one, Boundary(0.5, 0.7), 6, seed) for one in (case, (few, case[1])))
            assert all(np.array_equal(a, b) for a, b in zip(sampled, plain, strict=True))
    ends = EventStream(NODES, few.stream.src, few.stream.dst, np.array([-(2**63), *[0] * 6, 2**63 - 1]))
    sampled = found_by((IndexedStream(ends, few.tcsr), LocalPart(parts, 0)), Boundary(0.2, 1.0), 8)
    assert sampled.counts.max() <= 1 and np.isfinite(sampled.weight).all()


# ---- statistics: one root, many seeds. theta R e^(-d gap) / sum is 1 for some and far below for others.

SEEDS = 20_000
LIMIT = 6.1  # standard errors: one is beyond them once in 10^9, so a false alarm among these tests' 100 comparisons once in 10^7


def drawn(case: tuple[IndexedStream, LocalPart, np.ndarray], of: Boundary, fanout: int = 12) -> np.ndarray:
    """Weight of each of the recent neighbours, 0 where it is not sampled, for every seed: [SEEDS, fanout]."""
    source, seat, _ = case
    root = np.zeros(1, np.int32), np.full(1, 40, np.int32)
    weights = np.zeros((SEEDS, 40))
    for seed in range(SEEDS):
        sampled = boundary.sample(source.tcsr, source.stream.t, seat, *root, fanout, of, seed)
        size = sampled.counts[0]
        weights[seed, sampled.event[0, :size]] = sampled.weight[0, :size]
    return weights[:, 40 - fanout :]


CASES = [(0.1, 0.0), (0.5, 0.0), (0.3, 0.02), (0.7, 0.01)]
cases = pytest.mark.parametrize(("theta", "decay"), CASES)


@pytest.mark.sample(2)
@needs_cpu
@cases
def test_sums_have_the_recent_neighbours_as_their_expectation(theta: float, decay: float) -> None:
    """Eq. 16 with eq. 8's attention and random inputs: z-tests of 9 numbers in each of 4 cases."""
    case = one_root()
    weights, (source, _, remote) = drawn(case, Boundary(theta, decay, complete=False)), case
    t = source.stream.t[-12:]
    attention, x = np.exp(0.02 * (t - t[-1])), np.random.default_rng(1).standard_normal((12, 8))
    inputs = attention[:, None] * np.column_stack([x, np.ones(12)])  # the last column: what the sum is divided by
    sums = weights @ inputs
    error = sums.std(0, ddof=1) / np.sqrt(SEEDS)
    assert (error > 0).all() and (np.abs(sums.mean(0) - inputs.sum(0)) < LIMIT * error).all()
    assert remote.any() and not remote.all() and (weights[:, ~remote] == 1).all()


@pytest.mark.slow
@needs_cpu
@cases
def test_no_more_remote_neighbours_than_the_share(theta: float, decay: float) -> None:
    """Their expected number is the sum of eq. 17's p, which is at most theta times as many as there are."""
    case = one_root()
    weights, (source, _, remote) = drawn(case, Boundary(theta, decay, complete=False)), case
    sampled = (weights[:, remote] > 0).sum(1)
    t = source.stream.t[-12:][remote]
    share = np.exp(decay * (t - t[-1]))
    p = np.minimum(theta * remote.sum() * share / share.sum(), 1)
    assert p.sum() <= theta * remote.sum() * (1 + 1e-12)
    assert abs(sampled.mean() - p.sum()) < LIMIT * sampled.std(ddof=1) / np.sqrt(SEEDS)
    assert np.ptp(p) == 0 if decay == 0 else (p < 1).any()


@pytest.mark.sample(2)
@needs_cpu
@cases
def test_coins_are_tossed_each_on_its_own(theta: float, decay: float) -> None:
    """Variances of sums add up: that of the whole is the sum over neighbours of x^2 (1 - p) / p."""
    case = one_root()
    weights, (_, _, remote) = drawn(case, Boundary(theta, decay, complete=False)), case
    x = np.random.default_rng(2).standard_normal(12)
    p = 1 / np.where(weights > 0, weights, np.nan)
    exact = (x**2 * (1 - np.nanmean(p, 0)) / np.nanmean(p, 0))[remote].sum()
    sums = weights @ x
    fourth = ((sums - sums.mean()) ** 4).mean()
    error = np.sqrt((fourth - sums.var() ** 2) / SEEDS)
    assert abs(sums.var() - exact) < LIMIT * error


@pytest.mark.slow
@needs_cpu
@cases
def test_the_variance_lies_within_the_papers_bound(theta: float, decay: float) -> None:
    """§3.3: Var <= |B| zeta^2 / Theta with B the remote ones of the recent neighbours, and Theta = theta |B|.

    The paper has zeta = max ||g_u||. Taken here: the largest norm of an input x, which no ||g_u|| exceeds where attention is eq. 8's and
    sums to 1, and which that of a node with one neighbour is. Where p is below 1 it is Theta e_k / S, S the sum of e over B, and
    Var <= sum a_k^2 x_k^2 / p_k <= zeta^2 / Theta: |B| times less than the paper grants.
    """
    case = one_root()
    weights, (source, _, remote) = drawn(case, Boundary(theta, decay, complete=False)), case
    x = np.random.default_rng(3).standard_normal((12, 8))
    x /= np.linalg.norm(x, axis=1).max()  # zeta = 1
    attention = np.exp(decay * (source.stream.t[-12:] - source.stream.t[-1]))
    sums = weights @ (attention / attention.sum() * x.T).T
    Theta = theta * remote.sum()
    assert 0 < sums.var(0).sum() <= 1 / Theta <= remote.sum() / Theta


@pytest.mark.sample(1)
@needs_cpu
@pytest.mark.parametrize("theta", [0.1, 0.5])
def test_the_variance_of_random_inputs_lies_within_equation_26(theta: float) -> None:
    """A neighbour's contribution w x, x of mean mu and variance delta^2, remote with probability lambda: its variance E[w^2 x^2] - mu^2 is
    eq. 26's bound less lambda mu^2."""
    case = one_root()
    weights, remote = drawn(case, Boundary(theta, complete=False)), case[2]
    mu, delta, share = 0.7, 1.3, remote.mean()
    values = weights * np.random.default_rng(4).normal(mu, delta, weights.shape)
    bound = (1 - share) * delta**2 + share * (mu**2 + delta**2) / theta
    spread = np.sqrt((((values - mu) ** 4).mean() - values.var() ** 2) / values.size)
    assert values.var() <= bound and abs(values.var() - (bound - share * mu**2)) < LIMIT * spread
    assert abs(values.mean() - mu) < LIMIT * values.std() / np.sqrt(values.size)


# ---- neighbourhoods


@given(cut(), st.sampled_from([(3,), (2, 3)]), st.booleans(), boundaries, st.integers(0, 9))
def test_every_hop_samples_at_its_own_time(
    case: tuple[IndexedStream, LocalPart], fanouts: tuple[int, ...], unique: bool, of: Boundary, seed: int
) -> None:
    """Each target of each level has the slots and weights that its node has alone, before the event that led there."""
    source, seat = case
    node, before = all_roots(source)
    node, before = node[3:], before[3:]
    t = source.stream.t
    roots = (node, before, np.full(node.size, t[-1]))
    sampled = sample(source.tcsr, t, roots, Sampling(fanouts, unique=unique, boundary=of), seed, local_part=seat)
    tree, bounds = sampled.trees[0], before
    for number, hop in enumerate(tree.hops):
        nodes = sampled.nodes[tree.levels[number]]
        key = draws.derive_key(draws.derive_key(seed, 0), number)
        resampled = boundary.sample(source.tcsr, t, seat, nodes, bounds, fanouts[number], of, key)
        there = np.arange(fanouts[number]) < resampled.counts[:, None]
        assert hop.weight is not None and hop.weight.dtype == np.float32
        targets = slice(None) if there.any() or not number else slice(0, 0)
        np.testing.assert_array_equal(hop.there[targets], there[targets])
        np.testing.assert_array_equal(hop.weight, resampled.weight)
        np.testing.assert_array_equal(sampled.edges[hop.edge[there]], resampled.event[there])
        below = sampled.nodes[tree.levels[number + 1]]
        np.testing.assert_array_equal(below[hop.slot[there]], resampled.neighbor[there])
        bounds = np.zeros(below.size, np.int32)
        bounds[hop.slot[there]] = resampled.event[there]


def test_without_a_boundary_nothing_has_changed() -> None:
    assert str(Sampling((3,))) == (
        "Sampling(fanouts=(3,), policy='recent', windows=1, duration=0.0, unique=True, delivers=0, sources=False)"
    )
    assert str(Sampling((3,), boundary=Boundary(0.1))).endswith("complete=True, cap=0.0, at_least_one=False, stale=False))")
    source, _ = hubs(500, 20)
    roots = source.roots(range(300, 320), np.zeros((20, 1), np.int32), 300)
    assert all(hop.weight is None for tree in sample(source.tcsr, source.stream.t, roots, Sampling((3, 2))).trees for hop in tree.hops)


# ---- what is refused


def test_what_is_refused() -> None:
    for theta, decay, message in (
        (-0.1, 0.0, r"^Boundary\.theta: expected a finite number of 0 or more, got -0\.1$"),
        (float("nan"), 0.0, r"^Boundary\.theta: expected a finite number of 0 or more, got nan$"),
        (0.1, float("inf"), r"^Boundary\.decay: expected a finite number of 0 or more, got inf$"),
    ):
        with pytest.raises(UserError, match=message):
            Boundary(theta, decay)
    for others in ({"policy": "uniform"}, {"windows": 2, "duration": 3.0}, {"duration": 3.0}):
        with pytest.raises(UserError, match=r"^a boundary is for recent neighbours without windows, got"):
            Sampling((3,), **others, boundary=Boundary(0.1))  # type: ignore[arg-type]
    source, parts = hubs(100, 20)
    roots = source.roots(range(50, 60), np.zeros((10, 1), np.int32), 50)
    arguments = source.tcsr, source.stream.t, roots, Sampling((3,), boundary=Boundary(0.1))
    with pytest.raises(UserError, match=r"nothing says which part is the own; expected a local part$"):
        sample(*arguments)
    with pytest.raises(UserError, match=r"^LocalPart\.rank: expected a part from 0 to 2, got 3$"):
        sample(*arguments, local_part=LocalPart(parts, 3))
    with pytest.raises(UserError, match=r"^the parts of events is <i4 \[99\]; expected contiguous int32 \[100\]$"):
        sample(*arguments, local_part=LocalPart(EventPartition(parts.node, parts.event[:99].copy(), 3), 0))
    with pytest.raises(UserError, match=r"^the parts of nodes is <i4 \[19\]; expected contiguous int32 \[20\]$"):
        sample(*arguments, local_part=LocalPart(EventPartition(parts.node[:19].copy(), parts.event, 3), 0))
    with pytest.raises(UserError, match=r"^t is <f4 \[100\]; expected contiguous float64 \[any\]$"):
        boundary.sample(source.tcsr, source.stream.t.astype(np.float32), LocalPart(parts, 0), *roots[:2], 3, Boundary(0.1))


@pytest.mark.parametrize("place", PLACES)
def test_rows_of_another_stream_never_reach_memory(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "reference":
        monkeypatch.setattr(kernel, "cpu_library_or_warn", lambda what: None)
    source, parts = hubs(100, 20)
    node, before = source.stream.src, np.full(100, 100, np.int32)
    rows = [source.tcsr.indptr, source.tcsr.neighbor, source.tcsr.event]
    owned = kernel.Ownership(parts.node, parts.event, 0)
    for at, wrong in ((0, rows[0] + 5), (1, rows[1] + 20), (1, rows[1] - 20), (2, rows[2] - 101), (2, rows[2] * 0 + 100)):
        broken = tuple(wrong if i == at else row for i, row in enumerate(rows))
        late = np.full(100, 2**30, np.int32)
        with pytest.raises(UserError, match=r"^boundary: "):
            kernel.sample(broken, source.stream.t, owned, node, late, 3, 0.5)  # type: ignore[arg-type]
    for bad in ({"fanout": -1}, {"fanout": 1025}, {"seed": 2**64}, {"threads": -1}, {"theta": -1.0}, {"decay": float("nan")}):
        with pytest.raises(UserError, match=r"^boundary: .*expected"):
            kernel.sample(tuple(rows), source.stream.t, owned, node, before, **{"fanout": 3, "theta": 0.5, **bad})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"before \[99\]"):
        kernel.sample(tuple(rows), source.stream.t, owned, node, before[:99], 3, 0.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^boundary: node ids must lie in"):
        kernel.sample(tuple(rows), source.stream.t, owned, node + 20, before, 3, 0.5)  # type: ignore[arg-type]


def test_the_reference_looks_as_far_back_as_the_kernel() -> None:
    """The first of 16 fan-outs before the recent ones is seen, the one before it is not."""
    assert boundary_decay_reference.BACK == 16
    for place in PLACES:
        for first, expected in ((200 - 3 - 48, 1), (200 - 3 - 49, 0)):
            stream = EventStream(2, np.zeros(200, np.int32), np.ones(200, np.int32), np.arange(200))
            event = np.ones(200, np.int32)
            event[first] = 0
            source, seat = IndexedStream(stream, TCSR.of(stream)), LocalPart(EventPartition(np.full(2, SHARED, np.int32), event, 2), 0)
            with pytest.MonkeyPatch.context() as patch:
                if place == "reference":
                    patch.setattr(kernel, "cpu_library_or_warn", lambda what: None)
                sampled = boundary.sample(source.tcsr, stream.t, seat, np.zeros(1, np.int32), np.full(1, 200, np.int32), 3, Boundary(0.0))
            assert sampled.counts.tolist() == [expected]
