"""What needs no training, and the waits of nodes, against loops over events."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_scores import area, precision, reciprocal
from stream_case import stream
from stream_search import NODES, sources

from chronoscale.batching.streams import event_gaps as module
from chronoscale.batching.streams.event_gaps import measure_event_gaps
from chronoscale.batching.streams.naive import naive_scores
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.protocol import Protocol


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_edges_that_were_there_before(batch, missing, monkeypatch):
    events = stream(seed=5, nodes=14, events=160)
    data = PreparedStream.of(events, Protocol(ranked=4, hidden=0.2))
    told, ranked = (data.negatives(what) for what in ("test", "ranked"))
    if missing:  # a first negative of one event, all the ranked ones of two, some of others
        told.dst[3], ranked.dst[5:7], ranked.dst[8:, 2:] = -1, -1, -1
    monkeypatch.setattr(PreparedStream, "negatives", lambda self, what: {"test": told, "ranked": ranked}[what])
    part, lists = data.split.test, {ending: ([], [], [], []) for ending in ("", "_new")}
    for at, event in enumerate(part):
        before = part.start + at // batch * batch
        met = set(zip(events.src[:before].tolist(), events.dst[:before].tolist(), strict=True))
        src, dst = int(events.src[event]), int(events.dst[event])
        if told.dst[at, 0] < 0:
            continue
        others = [float((src, other) in met) for other in ranked.dst[at].tolist() if other >= 0]
        for ending in ("", *(["_new"] if data.new[src] or data.new[dst] else [])):
            positive, negative, of_ranked, rows = lists[ending]
            positive.append(float((src, dst) in met))
            negative.append(float((src, int(told.dst[at, 0])) in met))
            if others:
                of_ranked.append(positive[-1])
                rows.append(others)
    found = naive_scores(data, batch)["EdgeBank"]
    assert set(found) == {name + ending for name in ("ap", "auc", "mrr") for ending in lists}
    for ending, (positive, negative, of_ranked, rows) in lists.items():
        assert found[f"ap{ending}"] == pytest.approx(precision(positive, negative))
        assert found[f"auc{ending}"] == pytest.approx(area(positive, negative))
        assert found[f"mrr{ending}"] == pytest.approx(reciprocal(of_ranked, rows))


def test_nothing_to_be_told_from_has_no_score(monkeypatch):
    data = PreparedStream.of(stream(seed=5), Protocol(ranked=2))
    part = data.split.test
    held = {"test": np.ones((len(part), 1), np.int32), "ranked": np.full((len(part), 2), -1, np.int32)}
    monkeypatch.setattr(PreparedStream, "negatives", lambda self, what: Negatives(part, held[what], ""))
    assert set(naive_scores(data, 5)["EdgeBank"]) == {"ap", "auc"}
    held["test"][:] = -1
    assert naive_scores(data, 5)["EdgeBank"] == {}


@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_the_most_frequent_label_of_training(hidden):
    events = stream(seed=9, nodes=20, events=200, labels=True)
    events.labels[:] = np.random.default_rng(1).integers(0, 3, 200)
    data = PreparedStream.of(events, Protocol(task="node", hidden=hidden))
    trained = data.training.stream.labels[: data.training_events].tolist()
    most = max(range(3), key=trained.count)
    truth = events.labels[data.split.test.start :]
    assert naive_scores(data, 7) == {"most frequent label": {"accuracy": pytest.approx((truth == most).mean())}}


@given(sources, st.integers(0, 45), st.sampled_from([1, 2, 7, 1 << 20]))
def test_waits_between_events_of_a_node(source, events, block):
    stream, gaps = source.stream, []
    for node in range(NODES):
        own = [e for e in range(min(events, len(stream))) if node in (stream.src[e], stream.dst[e])]
        gaps += [float(stream.t[later] - stream.t[earlier]) for earlier, later in pairwise(own)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        mean, deviation = measure_event_gaps(source, events)
    assert mean == pytest.approx(np.mean(gaps) if gaps else 0, rel=1e-9)
    assert deviation == pytest.approx(np.std(gaps) if gaps else 0, rel=1e-6, abs=1e-6)
