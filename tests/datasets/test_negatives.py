"""Negatives of training and of evaluation against sets, event by event; draws by counter, and the numbers a set leaves out."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chronoscale.datasets.streams import draws, negatives
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.gaps import Gaps
from chronoscale.errors import UserError

N = 9
event_lists = st.lists(st.tuples(st.integers(0, 12), st.integers(0, N - 1), st.integers(0, N - 1)), min_size=3, max_size=50).map(sorted)


def stream(events):
    t, src, dst = (np.array(column) for column in zip(*events, strict=True))
    return EventStream(N, src.astype(np.int32), dst.astype(np.int32), t.astype(np.int64))


def busy(events=2000, seed=0):
    rng = np.random.default_rng(seed)
    return stream([(i // 3, int(s), int(d)) for i, (s, d) in enumerate(rng.integers(0, N, (events, 2)))])


@given(event_lists, st.integers(1, 8), st.sampled_from(["mixed", "historical", "random"]), st.integers(0, 5), st.floats(0.1, 0.9))
def test_negatives_of_evaluation_are_those_of_the_protocol(events, k, kind, seed, share):
    events = stream(events)
    train_end = int(share * len(events))
    part = range(train_end, len(events))
    found = negatives.evaluation_negatives(events, train_end, part, k, kind, seed).dst
    src, dst, t = events.src.tolist(), events.dst.tolist(), events.t.tolist()
    limit = {"mixed": k // 2, "historical": k, "random": 0}[kind]
    for row, event in zip(found.tolist(), part, strict=True):
        taken = {dst[i] for i in part if src[i] == src[event] and t[i] == t[event]}
        met = {dst[i] for i in range(train_end) if src[i] == src[event]} if kind != "random" else set()
        old, new = met - taken, set(dst) - met - taken
        num_old = min(limit, len(old))
        num_new = min(k - num_old, len(new))
        assert len(set(row[:num_old])) == num_old and set(row[:num_old]) <= old
        assert len(set(row[num_old : num_old + num_new])) == num_new and set(row[num_old : num_old + num_new]) <= new
        assert row[num_old + num_new :] == [negatives.NONE] * (k - num_old - num_new)


@pytest.mark.parametrize("kind", ["mixed", "historical", "random"])
def test_every_candidate_is_drawn_as_often_as_another(kind):
    """Source 0 met 1..4 in training; 5..8 are destinations of others; its events of evaluation meet 1 and 5 at one time."""
    past = [(0, 0, d) for d in (1, 2, 3, 4)] + [(0, 1, d) for d in (5, 6, 7, 8)]
    later = [(1 + i, 0, d) for i in range(6000) for d in (1, 5)]
    found = negatives.evaluation_negatives(stream(past + later), len(past), range(len(past), len(past) + len(later)), 4, kind).dst
    counts = np.bincount(found[found >= 0], minlength=N) / len(found)
    first = np.bincount(found[:, 0], minlength=N) / len(found)
    assert all(abs(one - {"mixed": 1 / 3, "historical": 1 / 3, "random": 1 / 6}[kind]) < 0.02 for one in first[first > 0])
    share = {"mixed": [2 / 3] * 3 + [2 / 3] * 3, "historical": [1] * 3 + [1 / 3] * 3, "random": [4 / 6] * 6}[kind]
    np.testing.assert_allclose(counts[[2, 3, 4, 6, 7, 8]], share, atol=0.02)
    assert not counts[[0, 1, 5]].any()


def test_negatives_of_evaluation_are_the_seed_s_and_the_event_s():
    events = busy()
    whole, again, other = (negatives.evaluation_negatives(events, 1000, range(1200, 2000), 3, seed=seed).dst for seed in (3, 3, 4))
    assert_array_equal(whole, again)
    assert (whole != other).any()
    later = negatives.evaluation_negatives(events, 1000, range(1500, 2000), 3, seed=3).dst  # 1500 begins a time
    assert_array_equal(whole[300:], later)


def test_blocks_change_nothing(monkeypatch):
    events = busy(300)
    whole = negatives.evaluation_negatives(events, 100, range(120, 300), 5).dst
    monkeypatch.setattr(negatives, "CELLS", 35)
    assert_array_equal(whole, negatives.evaluation_negatives(events, 100, range(120, 300), 5).dst)


def test_what_cannot_be_drawn_is_refused():
    for k in (0, negatives.MAX_NEGATIVES + 1):
        with pytest.raises(UserError, match=r"expected 1\.\.32768"):
            negatives.evaluation_negatives(busy(9), 3, range(3, 9), k)
    with pytest.raises(UserError, match="did you mean 'historical'"):
        negatives.evaluation_negatives(busy(9), 3, range(3, 9), 2, "historic")
    with pytest.raises(UserError, match=r"0 or more and below 2\^128, got -1"):
        negatives.evaluation_negatives(busy(9), 3, range(3, 9), 2, seed=-1)
    for train_end, part in ((3, range(2, 9)), (3, range(3, 10)), (3, range(3, 9, 2)), (-1, range(3, 9)), (3, range(6, 5))):
        with pytest.raises(UserError, match=r"a range of step 1 in .*\.\.9, got range"):
            negatives.evaluation_negatives(busy(9), train_end, part, 2)
    with pytest.raises(UserError, match=r"dst\[1\]: node id 9 is outside 0\.\.8"):
        negatives.destinations(np.array([3, 9], np.int32), N)


def test_saved_negatives_come_back_and_others_are_refused(tmp_path):
    events, file = busy(90), tmp_path / "test.npz"
    made = negatives.evaluation_negatives(events, 30, range(60, 90), 4)
    made.save(file)
    read = negatives.load(file, made.part, negatives.digest(events, 30, range(60, 90), 4))
    assert_array_equal(read.dst, made.dst)
    assert (read.part, read.digest, list(tmp_path.iterdir())) == (made.part, made.digest, [file])
    swapped = EventStream(N, events.dst, events.src, events.t)
    for other in (
        negatives.digest(events, 30, range(60, 90), 4, seed=1),
        negatives.digest(events, 30, range(60, 90), 4, "random"),
        negatives.digest(events, 31, range(60, 90), 4),
        negatives.digest(swapped, 30, range(60, 90), 4),
    ):
        with pytest.raises(UserError, match=r"test\.npz: negatives of other data"):
            negatives.load(file, made.part, other)
    with pytest.raises(UserError, match=r"test\.npz: negatives of events 60\.\.89, expected range\(61, 90\)"):
        negatives.load(file, range(61, 90), made.digest)
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"test\.npz: truncated"):
        negatives.load(file, made.part, made.digest)
    for wrong, name in (
        ({"dst": np.int32(4)}, "dst"),
        ({"dst": made.dst.astype(np.float64)}, "dst"),
        ({"start": np.arange(30)}, "start"),
        ({"start": np.float64(60)}, "start"),
    ):
        np.savez(file, **{"dst": made.dst, "start": np.int64(60), "digest": np.array(made.digest), **wrong})
        with pytest.raises(UserError, match=rf"test\.npz: {name}: expected"):
            negatives.load(file, made.part, made.digest)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    made, file = negatives.evaluation_negatives(busy(90), 30, range(60, 90), 4), tmp_path / "test.npz"
    file.write_text("before")

    def full(draft, **_):
        assert str(os.getpid()) in Path(draft.name).name
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space left"):
        made.save(file)
    assert list(tmp_path.iterdir()) == [file] and file.read_text() == "before"


def test_negatives_of_training_avoid_the_destination_and_are_uniform():
    among = np.array([2, 3, 5, 8], np.int32)
    dst = np.tile(np.array([2, 5, 8, 4], np.int32), 6000)  # 4 is no destination of `among`
    found = negatives.training_negatives(dst, np.arange(dst.size), among, 2, seed=1, epoch=0)
    assert found.shape == (dst.size, 2) and found.dtype == np.int32
    assert set(found.ravel().tolist()) == set(among.tolist())
    for own in (2, 5, 8, 4):
        counts = np.bincount(found[dst == own].ravel(), minlength=N)
        others = [node for node in among if node != own]
        np.testing.assert_allclose(counts[others] / 12000, 1 / len(others), atol=0.02)
        assert counts.sum() == counts[others].sum()
    assert negatives.training_negatives(among[:1], np.arange(1), among[:1], seed=0, epoch=0).tolist() == [[2]]


def test_what_training_cannot_draw_is_refused():
    among, event = np.array([2, 3, 5, 8], np.int32), np.arange(4)
    for nodes in (among[:0], among[::-1], among[[0, 0]]):
        with pytest.raises(UserError, match="among: expected different nodes in ascending order"):
            negatives.training_negatives(among, event, nodes, seed=0, epoch=0)
    for per_event in (0, 65536):
        with pytest.raises(UserError, match=rf"expected 1\.\.65535, got {per_event}"):
            negatives.training_negatives(among, event, among, per_event, seed=0, epoch=0)
    with pytest.raises(UserError, match=r"event: expected shape \(4\), got \(3,\)"):
        negatives.training_negatives(among, event[:3], among, seed=0, epoch=0)


def test_the_example_of_the_documentation_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    names: dict[str, Any] = {}
    exec(page.split("## Event streams: split")[1].split("```python\n")[1].split("```")[0], names)
    assert not names["view"].hidden[names["drawn"]].any()
    assert all(0 < float(figure) <= 1 for figure in capsys.readouterr().out.split())


def test_an_event_has_the_same_negatives_in_any_batch_and_others_in_another_epoch():
    among, dst = np.arange(50, dtype=np.int32), (np.arange(400) % 50).astype(np.int32)
    order = np.random.default_rng(0).permutation(400)
    whole = negatives.training_negatives(dst, np.arange(400), among, 3, seed=5, epoch=2)
    assert_array_equal(negatives.training_negatives(dst[order], order, among, 3, seed=5, epoch=2), whole[order])
    assert_array_equal(negatives.training_negatives(dst, np.arange(400), among, 1, seed=5, epoch=2), whole[:, :1])
    for seed, epoch in ((5, 3), (6, 2)):
        assert (negatives.training_negatives(dst, np.arange(400), among, 3, seed=seed, epoch=epoch) != whole).mean() > 0.9


def test_large_seeds_have_keys_of_their_own():
    """SeedSequence cuts a number into words of 32 bits: (2^32, 5) would be (0, 1, 5)."""
    seeds = (0, 1, 2**32, 2**32 + 1, 2**64, 2**96, 2**128 - 1)
    purposes = ((0,), (1,), (2,), (0, 0), (0, 1), (1, 5), (0, 2**32), (5,))
    assert len({draws.derive_key(seed, *purpose) for seed in seeds for purpose in purposes}) == len(seeds) * len(purposes)
    with pytest.raises(UserError, match=r"0 or more and below 2\^128"):
        draws.derive_key(2**128, 0)


def test_draws_are_splitmix64():
    """From key 0, by its published step, one number after another."""
    mask, state = 2**64 - 1, 0
    for slot in range(5):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        assert draws.draw_below(0, np.zeros(1, np.int64), slot, 10**9)[0] == int((z >> 11) * 2.0**-53 * 10**9)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=40))
def test_gaps_are_what_sets_leave_out(pairs):
    pairs = sorted(set(pairs))
    segment, number = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    gaps = Gaps(segment, number, 7)
    for s in range(7):
        inside = [n for q, n in pairs if q == s]
        outside = [n for n in range(15) if n not in inside]
        every = np.arange(15)
        place, rank = gaps.find(np.full(15, s), every)
        assert place.tolist() == [inside.index(n) if n in inside else -1 for n in every]
        assert rank[outside].tolist() == list(range(len(outside)))
        assert gaps.nth(np.full(len(outside), s), np.arange(len(outside))).tolist() == outside
        assert gaps.counts[s] == len(inside)
