"""Rivals of models that predict links or labels of events, against loops over events; and that none reads what it predicts."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_scores import area, precision, reciprocal
from stream_case import stream, unix_stream

from chronoscale.batching.rivals.links import counts
from chronoscale.batching.rivals.links import rival as link_rival
from chronoscale.batching.rivals.links.counts import EventIndex, FadingCounts
from chronoscale.batching.rivals.links.neighbours import LATEST
from chronoscale.batching.streams import rivals as module
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.rivals import link_rivals, score_stream_rivals
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.edgebank import EdgeBank, batch_starts
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.protocol import Protocol

NAMES = [
    "EdgeBank",
    "EdgeBank of a window",
    "times the pair was there",
    "seen pair then popularity of late",
    "latest pair then popularity of late",
    "popularity of late",
    "preferential attachment",
    "common recent neighbours",
]


def bipartite(seed: int = 0, events: int = 160) -> EventStream:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 8, events).astype(np.int32), rng.integers(8, 14, events).astype(np.int32)
    return EventStream(14, src, dst, 1_300_000_000 + np.sort(rng.integers(0, 60, events)).astype(np.int64))


def latest(events: EventStream, node: int, known: int) -> list[int]:
    """The other ends of a node's last events."""
    pairs = zip(events.src[:known].tolist(), events.dst[:known].tolist(), strict=True)
    return [b if a == node else a for a, b in pairs if node in (a, b)][-LATEST:]


def predict(name: str, events: EventStream, known: int, src: int, dst: int, half_life: float, window: float, hops: int) -> float | tuple:
    """What a rival's scores have to be ordered like, by a loop."""
    pairs = list(zip(events.src[:known].tolist(), events.dst[:known].tolist(), strict=True))
    times = [event for event, pair in enumerate(pairs) if pair == (src, dst)]
    popularity = sum(0.5 ** ((known - event) / half_life) for event, (_, end) in enumerate(pairs) if end == dst)
    if name.startswith("EdgeBank"):
        return sum(name == "EdgeBank" or events.t[event] >= events.t[known - 1] - window for event in times) > 0
    if name == "preferential attachment":
        degrees = [sum((a == node) + (b == node) for a, b in pairs) for node in (src, dst)]
        return degrees[0] * degrees[1]
    if name == "common recent neighbours":
        mine = latest(events, src, known)
        mine = [far for near in mine for far in latest(events, near, known)] if hops == 2 else mine
        return sum(one == other for one in mine for other in latest(events, dst, known))
    newest = times[-1] if times else -1
    return {
        "times the pair was there": len(times),
        "popularity of late": popularity,
        "seen pair then popularity of late": (bool(times), popularity),
        "latest pair then popularity of late": (newest, 0 if times else popularity),
    }[name]


@pytest.mark.parametrize(("case", "batch"), [("ties", 7), ("ties", 1), ("bipartite", 20), ("unix", 100)])
def test_scores_order_pairs_as_loops_do(case, batch, monkeypatch):
    events = {"ties": stream(5, 14, 160), "bipartite": bipartite(), "unix": unix_stream(2, events=160)}[case]
    monkeypatch.setattr(link_rival, "PAIRS", 50)
    monkeypatch.setattr(module, "HALF_LIVES", (5, 40))
    monkeypatch.setattr(counts, "SPAN", 6)
    data = PreparedStream.of(events, Protocol(ranked=4))
    part, share = data.split.test, 1 - 0.7 - 0.15
    window = share * float(events.t[data.split.train_end - 1] - events.t[0])
    negatives = np.concatenate([data.negatives(use).dst for use in ("test", "ranked")], axis=1)
    negatives[3, 1] = -1
    pairs = np.concatenate([events.dst[part.start :, None], negatives], axis=1)
    known = part.start + np.arange(len(part)) // batch * batch
    rivals = link_rivals(data, batch)
    assert [rival.name for rival in rivals] == NAMES
    for rival in rivals:
        half_life = next((each for each in (5, 40) if f"after {each} events" in rival.meaning), math.inf)
        scores = rival.scores(events.src[part.start :], pairs, known)
        expected = [
            predict(
                rival.name, events, int(known[row]), int(events.src[part.start + row]), node, half_life, window, 1 + (case == "bipartite")
            )
            for row, node in zip(*(each.tolist() for each in (np.nonzero(pairs >= 0)[0], pairs[pairs >= 0])), strict=True)
        ]
        assert (scores[pairs < 0] == -np.inf).all() and np.isfinite(scores[pairs >= 0]).all()
        flat = scores[pairs >= 0].tolist()
        if not isinstance(expected[0], tuple) and "popularity" not in rival.name:
            assert flat == expected, rival.name
        order = np.argsort(flat, kind="stable").tolist()
        for lower, higher in pairwise(order):
            assert _no_more(expected[lower], expected[higher]), (rival.name, expected[lower], expected[higher])
            assert (flat[lower] < flat[higher]) or _no_more(expected[higher], expected[lower]), rival.name


def _no_more(one: float | tuple, other: float | tuple) -> bool:
    """Whether one is no more than the other, but for rounding."""
    first, second = (each if isinstance(each, tuple) else (each,) for each in (one, other))
    for a, b in zip(first, second, strict=True):
        if a != pytest.approx(b, rel=1e-9, abs=1e-9):
            return a < b
    return True


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=30), st.floats(0.3, 50), st.integers(1, 9))
def test_faded_counts_are_sums_over_events(events, half_life, span):
    keys, gaps = (np.array([event[k] for event in events], np.int64) for k in (0, 1))
    clock = np.cumsum(gaps)
    queries = np.array([*product(range(6), range(len(events) + 1))], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "SPAN", 10 + span)
        index = EventIndex(keys)
        logs = FadingCounts(index, clock, half_life).weigh(queries[:, 0], queries[:, 1]) if len(events) else np.full(len(queries), -np.inf)
        ever = FadingCounts(index, clock, math.inf).weigh(queries[:, 0], queries[:, 1])
    for (key, known), log, all_of_it in zip(queries.tolist(), logs.tolist(), ever.tolist(), strict=True):
        own = [event for event in range(known) if keys[event] == key]
        now = clock[known - 1] + 1 if known else 0
        expected = sum(0.5 ** ((now - clock[event]) / half_life) for event in own)
        assert 2**log == pytest.approx(expected, rel=3 * 0.5 ** (10 + span)) and 2**all_of_it == pytest.approx(len(own))
    assert index.count(queries[:, 0], queries[:, 1], queries[:, 1] // 2).tolist() == [
        sum(keys[event] == key for event in range(known // 2, known)) for key, known in queries.tolist()
    ]
    assert index.newest(queries[:, 0], queries[:, 1]).tolist() == [
        max((event for event in range(known) if keys[event] == key), default=-1) for key, known in queries.tolist()
    ]


def test_ages_of_thousands_of_half_lives_still_order():
    index = EventIndex(np.array([3, 1, 2, 1]))
    log = FadingCounts(index, np.array([0, 5_000, 100_000, 100_001]), 1.0).weigh(np.array([3, 1, 2]), np.array([4, 4, 4]))
    assert log[0] == -100_002 and log[1] == pytest.approx(-1) and log[2] == -2


@settings(max_examples=10)
@given(st.integers(0, 20), st.integers(0, 2**31))
def test_no_event_after_the_batch_began_is_read(later, seed):
    """Whatever is changed from a batch's first event on, the scores of the batch stay."""
    events = stream(5, 14, 160)
    data = PreparedStream.of(events, Protocol(ranked=2))
    known = data.split.validation_end + later
    rng = np.random.default_rng(seed)
    src, dst = (np.concatenate([ends[:known], rng.integers(0, 13, 160 - known).astype(np.int32)]) for ends in (events.src, events.dst))
    other = PreparedStream.of(replace(events, src=src, dst=dst), Protocol(ranked=2))
    pairs = np.array([*product(range(13), range(13))], np.int32)
    for one, two in zip(link_rivals(data, 5), link_rivals(other, 5), strict=True):
        scores = [each.scores(pairs[:, 0], pairs[:, 1:], np.full(len(pairs), known)) for each in (one, two)]
        assert one.meaning == two.meaning
        np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_edges_that_were_there_before(batch, missing, monkeypatch):
    events = stream(seed=5, nodes=14, events=160)
    data = PreparedStream.of(events, Protocol(ranked=4, hidden=0.2))
    negatives, ranked, validation = (data.negatives(what) for what in ("test", "ranked", "validation"))
    if missing:  # a first negative of one event, all the ranked ones of two, some of others
        negatives.dst[3], ranked.dst[5:7], ranked.dst[8:, 2:] = -1, -1, -1
    fixed = {"test": negatives, "ranked": ranked, "validation": validation}
    monkeypatch.setattr(PreparedStream, "negatives", lambda self, what: fixed[what])
    part, lists = data.split.test, {ending: ([], [], [], []) for ending in ("", "_new")}
    for at, event in enumerate(part):
        before = part.start + at // batch * batch
        met = set(zip(events.src[:before].tolist(), events.dst[:before].tolist(), strict=True))
        src, dst = int(events.src[event]), int(events.dst[event])
        own, first = float((src, dst) in met), int(negatives.dst[at, 0])
        others = [float((src, other) in met) for other in ranked.dst[at].tolist() if other >= 0]
        for ending in ("", *(["_new"] if data.new[src] or data.new[dst] else [])):
            positive, negative, of_ranked, rows = lists[ending]
            if first >= 0:
                positive.append(own)
                negative.append(float((src, first) in met))
            if others:
                of_ranked.append(own)
                rows.append(others)
    scores = score_stream_rivals(data, batch)[0].scores
    assert set(scores) == {name + ending for name in ("ap", "auc", "mrr") for ending in lists}
    for ending, (positive, negative, of_ranked, rows) in lists.items():
        assert scores[f"ap{ending}"] == pytest.approx(precision(positive, negative))
        assert scores[f"auc{ending}"] == pytest.approx(area(positive, negative))
        assert scores[f"mrr{ending}"] == pytest.approx(reciprocal(of_ranked, rows))


def test_settings_are_those_that_validate_best(monkeypatch):
    data = PreparedStream.of(bipartite(3, 400), Protocol(ranked=4))
    validated = {}
    for half_life in (3, 30, 300):
        monkeypatch.setattr(module, "HALF_LIVES", (half_life,))
        monkeypatch.setattr(module, "EVER", half_life)
        validated[half_life] = {one.name: one.scores["ap"] for one in score_stream_rivals(data, 20, "validation")}
    monkeypatch.setattr(module, "HALF_LIVES", (3, 30, 300))
    monkeypatch.setattr(module, "EVER", 300)
    for rival in score_stream_rivals(data, 20):
        if "popularity" in rival.name:
            best = max(validated, key=lambda half_life: validated[half_life][rival.name])
            assert f"half as much after {best} events; validation chose that" in rival.meaning


def test_without_negatives_there_is_no_score(monkeypatch):
    data = PreparedStream.of(stream(seed=5), Protocol(ranked=2))
    part = data.split.test
    negatives = {"test": np.ones((len(part), 1), np.int32), "ranked": np.full((len(part), 2), -1, np.int32)}
    negatives["validation"] = np.full((len(data.split.validation), 1), -1, np.int32)
    monkeypatch.setattr(PreparedStream, "negatives", lambda self, what: Negatives(range(len(negatives[what])), negatives[what], ""))
    assert all(set(one.scores) == {"ap", "auc"} for one in score_stream_rivals(data, 5))
    negatives["test"][:] = -1
    assert all(one.scores == {} for one in score_stream_rivals(data, 5))


@pytest.mark.parametrize(("kinds", "hidden"), [(3, 0.0), (3, 0.2), (2, 0.2)])
def test_labels_most_frequent_and_latest(kinds, hidden):
    events = stream(seed=9, nodes=20, events=200, labels=True)
    events.labels[:] = np.random.default_rng(1).integers(0, kinds, 200)
    events.src[-9:], events.labels[-1] = 19, np.bincount(events.labels[:140]).argmin()  # a source that was never there before
    data = PreparedStream.of(events, Protocol(task="node", hidden=hidden))
    trained = data.training.stream.labels[: data.training_events].tolist()
    most, share = max(range(kinds), key=trained.count), trained.count(1) / len(trained)
    part, guesses, ranks = data.split.test, [], []
    for at, event in enumerate(part):
        before = part.start + at // 7 * 7
        own = [int(events.labels[e]) for e in range(before) if events.src[e] == events.src[event]]
        guesses.append(own[-1] if own else most)
        ranks.append(own[-1] if own else share)
    truth = events.labels[part.start :]
    frequent, latest_known = score_stream_rivals(data, 7)
    assert frequent.scores["accuracy"] == pytest.approx((truth == most).mean())
    assert latest_known.scores["accuracy"] == pytest.approx((truth == guesses).mean())
    assert set(frequent.scores) == ({"accuracy", "auc"} if kinds == 2 else {"accuracy"})
    if kinds == 2:
        positive, negative = ([rank for rank, label in zip(ranks, truth, strict=True) if label == kind] for kind in (1, 0))
        assert latest_known.scores["auc"] == pytest.approx(area(positive, negative)) and frequent.scores["auc"] == 0.5


def test_a_validation_that_is_cut_short_cuts_that_of_rivals():
    """Of the first two batches of six events alone: as of a stream whose validation ends there."""
    data = PreparedStream.of(stream(events=200), Protocol(ranked=2))
    cut, whole = score_stream_rivals(data, 6, "validation", 2), score_stream_rivals(data, 6, "validation")
    part = data.split.validation[:12]
    src, dst = (np.asarray(column[part.start : part.stop]) for column in (data.whole.stream.src, data.whole.stream.dst))
    bank, candidates = EdgeBank(data.whole.stream), np.concatenate([dst[:, None], data.negatives("validation").dst[:12]], 1)
    scores = bank.scores(src, candidates, batch_starts(part, 6))
    expected = ranking.link_scores(scores[:, 0], scores[:, 1:], data.new[src] | data.new[dst])
    assert cut[0].name == "EdgeBank" and cut[0].scores == pytest.approx(expected)
    assert any(one.scores != other.scores for one, other in zip(cut, whole, strict=True))
