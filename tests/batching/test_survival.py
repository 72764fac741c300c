"""Survival: what an epoch draws. Orders are spread evenly and fair, cutoffs are nested, segments hold whole windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws, level_of, levels, rank_of
from chronoscale.datasets.arrays import Int64

decays = st.builds(Decay, st.integers(1, 3), st.integers(0, 6), st.sampled_from([0.01, 0.1, 0.5, 0.9, 1.0]))
epochs = st.builds(EpochDraws, st.integers(0, 99), st.integers(0, 99))


@dataclass(frozen=True)
class Singly:
    """Every age keeps one chunk less: depths tell the whole order."""

    window: int

    def kept_chunks(self, chunks: int) -> Int64:
        return np.arange(chunks, 0, -1)


def order(epoch: EpochDraws, chunks: int) -> Int64:
    """Chunks, those that survive longest first."""
    depth = epoch.depth(chunks, Singly(chunks), 1)
    assert sorted(depth.tolist()) == list(range(chunks))
    return np.argsort(-depth)


def halves(chunks: range) -> Iterator[range]:
    """The chunks, and those on either side of every cut."""
    yield chunks
    if len(chunks) > 1:
        middle = len(chunks) // 2
        yield from (*halves(chunks[:middle]), *halves(chunks[middle:]))


@given(epochs, st.integers(1, 70))
def test_every_prefix_is_spread_evenly(epoch: EpochDraws, chunks: int) -> None:
    """Either side of any cut keeps its share, but for less than one chunk a cut, of which those above count half as much and less."""
    ordered = order(epoch, chunks)
    prefix = np.arange(1, chunks + 1)
    for side in halves(range(chunks)):
        own_before = np.cumsum((ordered >= side.start) & (ordered < side.stop))
        assert np.abs(own_before - prefix * len(side) / chunks).max() < (1 if chunks & (chunks - 1) == 0 else 2)


@pytest.mark.sample(3)
@pytest.mark.parametrize("chunks", [2, 5, 6, 8])
def test_every_chunk_is_as_likely_at_every_place(chunks: int) -> None:
    draws = 3000
    seen = np.zeros((chunks, chunks))
    for draw in range(draws):
        seen[np.arange(chunks), order(EpochDraws(draw // 2, draw % 2), chunks)] += 1
    chance = 1 / chunks
    assert np.abs(seen / draws - chance).max() < 5 * np.sqrt(chance / draws)


@given(epochs, decays, st.integers(1, 70), st.booleans(), st.data())
def test_retained_chunks_are_nested_and_of_the_formula(
    epoch: EpochDraws, decay: Decay, chunks: int, each: bool, data: st.DataObject
) -> None:
    ranks = data.draw(st.integers(1, min(chunks, 6)))
    drawn = EpochDraws(epoch.seed, epoch.number, each)
    depth, owner = drawn.depth(chunks, decay, ranks), rank_of(chunks, ranks)
    level = level_of(decay, chunks)
    chunk_sets = [set(np.flatnonzero(depth >= one).tolist()) for one in level]
    assert all(older <= newer for newer, older in pairwise(chunk_sets))
    if not each:
        assert [len(one) for one in chunk_sets] == decay.kept_chunks(chunks).tolist()
        assert (depth == EpochDraws(epoch.seed, epoch.number).depth(chunks, decay, 1)).all()
        return
    for rank in range(ranks):
        own = set(np.flatnonzero(owner == rank).tolist())
        assert [len(one & own) for one in chunk_sets] == decay.kept_chunks(len(own)).tolist()


@given(decays, st.integers(1, 70))
def test_levels_are_the_different_sizes(decay: Decay, chunks: int) -> None:
    counts, level_counts = decay.kept_chunks(chunks), levels(decay, chunks)
    assert level_counts.tolist() == sorted(set(counts.tolist()), reverse=True) and level_counts[0] == chunks
    assert (level_counts[level_of(decay, chunks)] == counts).all()


def test_a_lag_is_at_the_level_of_the_whole() -> None:
    assert level_of(Decay(1, 3, 0.125, (3,)), 16).tolist() == [0, 1, 2, 0]


@given(st.integers(1, 200), st.data())
def test_ranks_have_consecutive_chunks_evenly(chunks: int, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, chunks))
    ranks_of_chunks = rank_of(chunks, ranks)
    sizes = np.bincount(ranks_of_chunks, minlength=ranks)
    assert (np.diff(ranks_of_chunks) >= 0).all() and len(sizes) == ranks and sizes.max() - sizes.min() <= 1


def test_draws_follow_from_seed_and_number() -> None:
    decay = Decay(2, 6, 0.1)
    drawn = {(seed, number): tuple(EpochDraws(seed, number).depth(64, decay, 1).tolist()) for seed in range(5) for number in range(5)}
    assert len(set(drawn.values())) == len(drawn)
    assert all(tuple(EpochDraws(*at).depth(64, decay, 4).tolist()) == depth for at, depth in drawn.items())
    splits = {at: EpochDraws(*at).steps(500, 8) for at in drawn}
    assert all(EpochDraws(*at).steps(500, 8) == steps for at, steps in splits.items())
    assert len({steps[0].start for steps in splits.values()}) > 15


def test_each_rank_draws_an_order_of_its_own() -> None:
    depth = EpochDraws(0, 0, each=True).depth(256, Decay(1, 6, 0.01), 4).reshape(4, 64)
    assert len({tuple(own.tolist()) for own in depth}) == 4


@given(epochs, st.integers(1, 9), st.integers(0, 30))
def test_every_window_is_trained_once(epoch: EpochDraws, window: int, more: int) -> None:
    """Of two parts of the sequence, the later first; windows read back over the split."""
    snapshots = window + more
    ranges = epoch.steps(snapshots, window)
    if not more:
        assert ranges == [range(window - 1, snapshots)]
        return
    later, earlier = ranges
    assert later and earlier and later.start == earlier.stop
    assert (earlier.start, later.stop) == (window - 1, snapshots)


@given(epochs, st.integers(1, 9), st.integers(0, 30))
def test_more_snapshots_never_make_fewer_steps(epoch: EpochDraws, window: int, more: int) -> None:
    def steps(snapshots: int) -> int:
        return sum(map(len, epoch.steps(snapshots, window)))

    assert steps(window + more + 1) == steps(window + more) + 1


@given(epochs, st.integers(1, 9), st.integers(0, 30))
def test_segments_apart_hold_a_window_each(epoch: EpochDraws, window: int, more: int) -> None:
    """Of two parts of the sequence, the later first; a window lies in one part."""
    snapshots = window + more
    ranges = epoch.steps(snapshots, window, apart=True)
    if snapshots < 2 * window:
        assert ranges == [range(window - 1, snapshots)]
        return
    later, earlier = ranges
    split = earlier.stop
    assert window <= split <= snapshots - window
    assert later == range(split + window - 1, snapshots) and earlier == range(window - 1, split) and later and earlier


def test_any_split_that_leaves_two_windows_is_drawn() -> None:
    stops = {EpochDraws(0, number).steps(11, 4, apart=True)[1].stop for number in range(200)}
    assert stops == set(range(4, 8))
    assert {EpochDraws(0, number).steps(11, 4)[1].stop for number in range(200)} == set(range(4, 11))
