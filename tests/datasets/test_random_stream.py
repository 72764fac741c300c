"""Random streams: the same whatever the block, pairs exactly as asked, skew and burstiness as measured, in bounded memory."""

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from profiles import examples
from pydantic import TypeAdapter

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate import generators
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.generate.pairs import Pairs, most_pairs
from chronoscale.datasets.generate.specs import GeneratorSpec
from chronoscale.datasets.randomness import permute, uniform
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.statistics import burstiness, count_stream, stream_shape, zipf_exponent
from chronoscale.errors import UserError

RICH = RandomStream(300, 5_000, 900, items=100, features=3, node_features=2, labels=0.2, seed=5)


def same(one: EventStream, other: EventStream) -> None:
    for field in fields(EventStream):
        assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@given(st.integers(1, 300), st.integers(0, 2**64 - 1))
def test_a_permutation_takes_every_number_once(size, key):
    moved = permute(np.arange(size), size, key)
    assert_array_equal(np.sort(moved), np.arange(size))
    assert_array_equal(permute(moved, size, key, back=True), np.arange(size))


def test_numbers_of_a_key_are_uniform_and_those_of_another_key_others():
    drawn, other = uniform(np.arange(100_000), 1), uniform(np.arange(100_000), 2)
    assert (drawn >= 0).all() and (drawn < 1).all()
    assert_array_equal(uniform(np.array([7, 3]), 1), drawn[[7, 3]])
    for numbers in (drawn, other):
        assert np.abs(np.histogram(numbers, 20, (0, 1))[0] - 5_000).max() < 5 * 5_000**0.5
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.015 and abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.015
    moved = permute(np.arange(100_000), 100_000, 1)
    assert abs(np.corrcoef(moved[1:], moved[:-1])[0, 1]) < 0.015 and abs(np.corrcoef(moved, np.arange(100_000))[0, 1]) < 0.015


@st.composite
def tables(draw):
    owners = draw(st.integers(2, 40))
    partners = draw(st.none() | st.integers(2, owners))
    most = most_pairs(owners, partners)
    skews = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    pairs = draw(st.sampled_from([owners, most]) | st.integers(owners, most))
    return owners, partners, pairs, pairs * draw(st.integers(1, 5)), draw(skews), draw(skews), draw(st.integers(0, 99))


@given(tables())
def test_numbered_pairs_are_distinct_and_every_node_has_one(table):
    owners, partners, pairs, *_ = table
    owner, partner = Pairs(*table)(np.arange(pairs))
    assert len(set(zip(owner.tolist(), partner.tolist(), strict=True))) == pairs
    assert_array_equal(np.unique(owner), np.arange(owners))
    assert (np.diff(np.bincount(owner)[partners or 0 :]) <= 1).all()  # quotas fall with the rank, but for rounding
    if partners is None:
        assert (owner != partner).all() and partner.min() >= 0 and partner.max() < owners
    else:
        assert_array_equal(np.unique(partner), np.arange(partners))


@given(tables())
def test_a_repeated_pair_is_one_of_the_numbered(table):
    rng = np.random.default_rng(0)
    number = Pairs(*table).repeated(rng.random(500), np.append(rng.random(498), [0.0, np.nextafter(1, 0)]))
    assert number.min() >= 0 and number.max() < table[2]


def test_repeats_have_the_skew_that_pairs_cannot_have():
    table = Pairs(60, 40, 2_000, 10**7, 1.0, 0.8, 3)  # five pairs of six
    rng = np.random.default_rng(0)
    ends = table(table.repeated(rng.random(400_000), rng.random(400_000)))
    for end, skew in zip(ends, (1.0, 0.8), strict=True):
        weights = np.arange(1, 1 + end.max()) ** -skew
        assert np.bincount(end)[:30] / 400_000 == pytest.approx(weights[:30] / weights.sum(), rel=0.12)


def test_partners_follow_their_weights():
    _, partner = Pairs(4_000, 50, 12_000, 12_000, 0.3, 1.0, 3)(np.arange(12_000))
    found = np.bincount(partner)[:20] - 1  # one is assured
    wanted = 1 / np.arange(1, 21)
    assert found / found.sum() == pytest.approx(wanted / wanted.sum(), rel=0.15)


@pytest.mark.slow
@examples(15)
@given(st.integers(1, 6_000), st.booleans(), st.sampled_from([0, 40, 100, 260]))
def test_a_stream_is_the_same_whatever_the_block(block, whole, items):
    asked = replace(RICH, whole=whole, items=items)
    same(replace(asked, block=block).stream(), asked.stream())


@examples(40)
@given(st.integers(4, 120), st.integers(0, 118), st.integers(0, 300), st.integers(0, 500), st.integers(0, 9))
def test_counts_come_out_exactly(nodes, items, more, repeats, seed):
    items = items if 2 <= items <= nodes - 2 else 0
    owners, partners = max(items, nodes - items), min(items, nodes - items) or None
    pairs = min(owners + more, most_pairs(owners, partners))
    made = RandomStream(nodes, pairs + repeats, pairs, items, seed=seed, block=100).stream()
    counted = count_stream(made)
    assert (len(made), counted.pairs, stream_shape(made).active_nodes) == (pairs + repeats, pairs, nodes)
    assert counted.repetition == pytest.approx(repeats / (pairs + repeats))
    if items:
        assert made.src.max() < nodes - items <= made.dst.min()
    else:
        assert counted.self_loops == 0


def test_new_pairs_come_throughout():
    made = RandomStream(500, 20_000, 4_000, seed=2).stream()
    _, first = np.unique(made.src.astype(np.int64) * 500 + made.dst, return_index=True)
    assert_array_equal(np.histogram(first, 4, (0, 20_000))[0], 1_000)
    assert np.diff(np.sort(first)).std() > 1  # not at even distances


@examples(12)
@given(st.sampled_from([0.0, 0.4, 0.8]), st.sampled_from([0.0, 0.4, 0.8]), st.sampled_from([0, 1_000]), st.integers(0, 3))
def test_skew_comes_out(source, destination, items, seed):
    found = stream_shape(RandomStream(4_000, 100_000, 40_000, items, source, destination, seed=seed).stream())
    for asked, measured in ((source, found.source_skew), (destination, found.destination_skew)):
        assert measured == pytest.approx(asked, abs=0.15)


@pytest.mark.parametrize(("nodes", "items", "pairs"), [(400, 200, 12_000), (170, 0, 9_000)])  # a third of all pairs
def test_skew_comes_out_where_partners_do_not_last(nodes, items, pairs):
    found = stream_shape(RandomStream(nodes, 400_000, pairs, items, 0.8, 0.6).stream())
    assert (found.source_skew, found.destination_skew) == pytest.approx((0.8, 0.6), abs=0.15)


@examples(20)
@given(st.sampled_from([-0.8, -0.3, 0.0, 0.3, 0.5]), st.booleans(), st.integers(0, 5))
def test_burstiness_and_span_come_out(asked, whole, seed):
    made = RandomStream(100, 40_000, 1_000, burstiness=asked, span=4e7, whole=whole, seed=seed).stream()
    assert made.t.dtype == (np.int64 if whole else np.float64) and made.t[0] == 0
    assert stream_shape(made).burstiness == pytest.approx(asked, abs=0.03)
    assert made.t[-1] == pytest.approx(4e7, rel=0.06)


def test_features_and_labels_come_out():
    made = RICH.stream()
    assert (made.features.shape, made.node_features.shape) == ((5_000, 3), (300, 2))
    assert made.features.mean() == pytest.approx(0, abs=0.03) and made.features.std() == pytest.approx(1, abs=0.03)
    assert made.labels.mean() == pytest.approx(0.2, abs=0.03)
    bare = replace(RICH, features=0, node_features=0, labels=0.0).stream()
    assert bare.features is None and bare.node_features is None and bare.labels is None
    for column in ("src", "dst", "t"):  # the same events with features and without
        assert_array_equal(getattr(bare, column), getattr(made, column))
    assert not np.array_equal(replace(RICH, seed=6).stream().src, made.src)


def test_it_is_written_in_blocks_and_found_by_name(tmp_path):
    generators.write_dataset(tmp_path / "blocks", replace(RICH, block=777))
    store.save(tmp_path / "whole", RICH.stream())
    for file in (tmp_path / "whole").iterdir():
        assert (tmp_path / "blocks" / file.name).read_bytes() == file.read_bytes() or file.name == "meta.json"
    same(store.load(tmp_path / "blocks"), RICH.stream())
    found = catalogue.load("events_small", seed=3)
    assert (found.name, len(found), found.num_nodes) == ("events_small", 19_684, 1_153)
    assert not np.array_equal(found.src, catalogue.load("events_small").src)
    with pytest.raises(UserError, match="is of the family streams, not a sequence"):
        catalogue.iterate_snapshots("events_small")


@pytest.mark.slow
def test_a_longer_stream_takes_no_more_memory(tmp_path):
    peaks = []
    for events in (40_000, 400_000):
        made = RandomStream(2_000, events, events // 8, features=4, block=8_192)
        tracemalloc.start()
        generators.write_dataset(tmp_path / str(events), made)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.25 * peaks[0] < 400_000 * 16


def test_a_spec_has_the_defaults_and_ranges_of_its_generator():
    given = {"kind": "events", "nodes": 30, "events": 90, "pairs": 40}
    assert generators.build(TypeAdapter(GeneratorSpec).validate_python(given), "x", 7) == RandomStream(30, 90, 40, seed=7, name="x")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 1}, "expected 2 nodes or more"),
        ({"items": 1}, "got 300 nodes, 1 items"),
        ({"items": 299}, "got 300 nodes, 299 items"),
        ({"pairs": 199}, r"pairs expected in 200\.\.19900, so that every node is in one, got 199"),
        ({"pairs": 20_001}, r"pairs expected in 200\.\.19900"),
        ({"events": 899}, "expected at least one for each of 900 pairs, got 899"),
        ({"source_skew": -0.1}, r"source_skew expected in \[0, 3\]"),
        ({"destination_skew": 3.1}, r"destination_skew expected in \[0, 3\]"),
        ({"burstiness": 0.95}, r"burstiness expected in \[-0.9, 0.9\]"),
        ({"burstiness": float("nan")}, "burstiness expected"),
        ({"span": 0.0}, "span expected"),
        ({"labels": 1.0}, "a share of labels"),
        ({"features": -1}, "widths of at least 0"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong, message):
    with pytest.raises(UserError, match=f"^events: .*{message}"):
        replace(RICH, **wrong)


def test_measures_of_what_is_known():
    assert burstiness(np.arange(10)) == -1.0
    assert burstiness(np.random.default_rng(0).exponential(size=100_000).cumsum()) == pytest.approx(0, abs=0.01)
    assert np.isnan(burstiness(np.zeros(5))) and np.isnan(burstiness(np.zeros(0)))
    ranks = np.arange(1, 1_001)
    for exponent in (0.0, 0.7, 2.0):
        assert zipf_exponent(np.rint(1e9 * ranks**-exponent).astype(np.int64)) == pytest.approx(exponent, abs=0.001)
    assert np.isnan(zipf_exponent(np.array([0, 4, 0]))) and zipf_exponent(np.array([10**9, 1])) == 10.0


def test_blocks_that_do_not_fit_leave_nothing(tmp_path):
    block = next(iter(RICH))
    rows = np.ones((300, 2), np.float32)
    for blocks, nodes, message in (
        ([], [], "at least one block"),
        ([block, replace(block, num_nodes=400, node_features=None)], [], "must share num_nodes"),
        ([block, replace(block, labels=None)], [], "must share num_nodes, columns"),
        ([block, replace(block, features=block.features[:, :1])], [], "widths"),
        ([block, replace(block, t=block.t.astype(np.float64))], [], "the type of time"),
        ([block, block], [], r"block from event 5000: time 0 is before \d+"),
        ([block], [rows, rows[:, :1]], "features from node 300: expected shape"),
        ([block], [rows[:1] * np.float32(np.inf)], "features from node 0: not finite"),
        ([block], [rows[:299]], "features of 299 nodes, where the stream has 300"),
    ):
        with pytest.raises(UserError, match=message):
            store.save_events(tmp_path / "d", blocks, nodes)
    assert list(tmp_path.iterdir()) == []
