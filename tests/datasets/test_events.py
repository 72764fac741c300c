"""Event streams and signals: their invariants; conversions to snapshots against a dict of multisets."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chronoscale.datasets.convert import snapshots_by_count, snapshots_by_width
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

N = 5
event_lists = st.lists(st.tuples(st.integers(0, 30), st.integers(0, N - 1), st.integers(0, N - 1)), min_size=1, max_size=40).map(sorted)


def stream(events, dtype=np.int64):
    t, src, dst = (np.array(column) for column in zip(*events, strict=True))
    return EventStream(N, src.astype(np.int32), dst.astype(np.int32), t.astype(dtype), name="s")


def multisets(sequence):
    return [
        dict(zip(zip(s.src.tolist(), s.dst.tolist(), strict=True), s.weight.tolist(), strict=True))  # edge -> multiplicity
        for s in sequence
    ]


@given(event_lists, st.integers(1, 12), st.sampled_from([np.int64, np.float64]))
def test_by_width_counts_every_event_once_in_its_period(events, width, dtype):
    sequence = snapshots_by_width(stream(events, dtype), width)
    first = events[0][0]
    periods = [Counter() for _ in range((events[-1][0] - first) // width + 1)]
    for t, u, v in events:
        periods[(t - first) // width][u, v] += 1
    assert multisets(sequence) == periods
    assert_array_equal(sequence.labels, [first + i * width for i in range(len(periods))])


@given(event_lists, st.integers(1, 12), st.integers(1, 4))
def test_by_count_slides_and_accumulates(events, count, k):
    chunks = [Counter((u, v) for _, u, v in events[i : i + count]) for i in range(0, len(events), count)]
    assert multisets(snapshots_by_count(stream(events), count)) == chunks
    slid = [sum(chunks[max(0, t - k + 1) : t + 1], Counter()) for t in range(len(chunks))]
    assert multisets(snapshots_by_count(stream(events), count, sliding=k)) == slid
    grown = [sum(chunks[: t + 1], Counter()) for t in range(len(chunks))]
    assert multisets(snapshots_by_count(stream(events), count, cumulative=True)) == grown


def test_conversions_refuse_what_makes_no_snapshots():
    events = stream([(0, 0, 1), (10**9, 1, 2)])
    with pytest.raises(UserError, match="would make 1000000001 snapshots"):
        snapshots_by_width(events, 1)
    with pytest.raises(UserError, match="positive time"):
        snapshots_by_width(events, 0.0)
    with pytest.raises(UserError, match="at least 1 event"):
        snapshots_by_count(events, 0)
    with pytest.raises(UserError, match="exclude each other"):
        snapshots_by_count(events, 1, cumulative=True, sliding=2)
    with pytest.raises(UserError, match="has no events"):
        snapshots_by_count(events.span(0, 0), 1)


@pytest.mark.parametrize(
    ("t", "message"),
    [(np.array([1, 3, 2]), r"t\[2\]: time 2 is before 3"), (np.array([1.0, np.nan, 2.0]), r"t\[1\]: time is not finite")],
)
def test_a_stream_refuses_time_that_falls_or_is_not_a_number(t, message):
    ids = np.arange(3, dtype=np.int32)
    with pytest.raises(UserError, match=message):
        EventStream(3, ids, ids, t)


def test_a_stream_refuses_ids_out_of_range_and_features_of_another_length():
    ids, t = np.arange(3, dtype=np.int32), np.arange(3)
    with pytest.raises(UserError, match=r"dst\[2\]: node id 2 is outside 0..1"):
        EventStream(2, np.zeros(3, dtype=np.int32), ids, t)
    with pytest.raises(UserError, match=r"features: expected shape \(3, any\), got \(2, 4\)"):
        EventStream(3, ids, ids, t, np.zeros((2, 4), dtype=np.float32))


def test_a_span_is_a_view_of_the_stream():
    events = stream([(i, i % N, (i + 1) % N) for i in range(10)])
    part = events.span(3, 7)
    assert_array_equal(part.t, [3, 4, 5, 6])
    assert np.shares_memory(part.src, events.src)
    assert part.num_nodes == N


def test_a_signal_wants_finite_values_except_where_they_are_missing():
    values = np.array([[[1.0], [np.nan]]])
    edges = np.array([[0], [1]], dtype=np.int32)
    with pytest.raises(UserError, match=r"values\[0, 1, 0\]: not finite"):
        Signal(values, edges)
    signal = Signal(values, edges, missing=np.isnan(values))
    assert (len(signal), signal.num_nodes, signal.num_channels) == (1, 2, 1)
    with pytest.raises(UserError, match=r"node id 2 is outside 0\.\.1"):
        Signal(np.ones((1, 2, 1)), edges + np.int32(1))


def test_a_signal_counts_what_is_missing(monkeypatch):
    values = np.array([[[0.0], [np.nan], [3.0]], [[1.0], [0.0], [0.0]]], np.float32)
    edges = np.zeros((2, 0), np.int32)
    heard = Signal.from_readings(values, edges)
    assert (heard.missing_count, heard.dead_sensors.tolist()) == (1, [])
    masked = heard.mark_missing(0)
    assert (masked.missing_count, masked.dead_sensors.tolist()) == (4, [1])
    assert masked.values is values
    assert Signal(np.zeros((2, 3, 2), np.float32), edges).mark_missing(0).absent.tolist() == [[2, 0]] * 3  # midnight stays
    assert Signal.from_readings(np.ones((2, 2, 1)), edges).missing is None
    monkeypatch.setattr("chronoscale.datasets.signals.signal.SCAN_BYTES", 1)  # a block a step
    values[1, 2, 0] = np.inf
    with pytest.raises(UserError, match=r"values\[1, 2, 0\]: not finite"):
        Signal.from_readings(values, edges)
    assert Signal(values, edges, verified=True).missing_count == 0  # not read again
