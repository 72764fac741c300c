"""Parts from one pass, against the formulas of MemShare §3.2 written down for one event."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu

from chronoscale.cuda_ext.scheduling import event_partitioner as made
from chronoscale.cuda_ext.scheduling.event_partitioner import SHARED, UNSEEN, EventPartitioner, Rule
from chronoscale.errors import UserError

NODES = 7


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(made, "cpu_library_or_warn", lambda _: None)


@st.composite
def streams(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """src, dst, time and who is shared; gaps of every size, so that sums fade to nothing or not at all."""
    ends = draw(st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=60))
    src, dst = (np.array([pair[k] for pair in ends], np.int32) for k in (0, 1))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 7.0, 100.0, 1e6]), min_size=len(ends), max_size=len(ends)))
    shared = np.array(draw(st.lists(st.booleans(), min_size=NODES, max_size=NODES)), np.bool_)
    return src, dst, np.cumsum(np.array(gaps, np.float64)), shared


def scores(event: int, src: np.ndarray, dst: np.ndarray, time: np.ndarray, part: list[int], node: np.ndarray, parts: int, decay: float):  # type: ignore[no-untyped-def]
    """Eq. 10 to 15 of one event, from all events before it and the nodes' parts."""
    now, before = float(time[event]), range(event)

    def attention(v: int, p: int) -> float:
        return sum(exp(decay * (float(time[e]) - now)) for e in before if part[e] == p and v in (src[e], dst[e]))

    held = [int((node == p).sum()) for p in range(parts)]
    count = [part.count(p) for p in range(parts)]
    last = [max([float(time[e]) for e in before if part[e] == p], default=0.0) for p in range(parts)]
    found = []
    for p in range(parts):
        bn = 1 - (held[p] - min(held)) / (1 + max(held) - min(held))
        be = 1 - (count[p] - min(count)) / (1 + max(count) - min(count))
        bt = exp((min(last) - last[p]) / (max(last) - min(last))) if max(last) > min(last) else 1
        found.append((attention(src[event], p) + attention(dst[event], p) + 1) * bn * be * bt)
    return found


@pytest.mark.usefixtures("place")
@given(streams(), st.integers(1, 4), st.sampled_from([0.0, 1e-3, 0.5, 20.0]))
def test_events_go_where_the_formulas_say(stream: tuple[np.ndarray, ...], parts: int, decay: float) -> None:
    src, dst, time, shared = stream
    partitioner, part = EventPartitioner.start(shared, parts, decay), []
    for event in range(len(src)):
        before = partitioner.node.copy()
        (one,) = partitioner.assign(*(column[event : event + 1] for column in (src, dst, time))).tolist()
        ends = {int(src[event]), int(dst[event])}
        follows = [before[v] for v in ends if before[v] >= 0 and any(before[u] == SHARED for u in ends - {v})]
        if follows:
            assert one == follows[0]
        else:
            found = scores(event, src, dst, time, part, before, parts, decay)
            assert found[one] == pytest.approx(max(found), rel=1e-9)
            assert all(found[p] < max(found) * (1 + 1e-9) for p in range(one)) and (found[one] >= max(found[:one], default=0) * (1 - 1e-9))
        for v in range(NODES):
            assert partitioner.node[v] == (one if v in ends and before[v] == UNSEEN else before[v])
        part.append(one)
    assert partitioner.events.tolist() == [part.count(p) for p in range(parts)]
    assert partitioner.held.tolist() == [int((partitioner.node == p).sum()) for p in range(parts)]


@needs_cpu
@given(streams(), st.integers(1, 9), st.sampled_from([0.0, 1e-3, 0.5, 20.0]), st.sampled_from(made.RULES), st.integers(0, 60))
def test_both_are_the_same_to_the_last_bit(stream: tuple[np.ndarray, ...], parts: int, decay: float, rule: Rule, cut: int) -> None:
    *columns, shared = stream
    native, plain = (EventPartitioner.start(shared, parts, decay, rule) for _ in range(2))
    found = [native.assign(*(column[part] for column in columns)) for part in (slice(0, cut), slice(cut, None))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "cpu_library_or_warn", lambda _: None)
        np.testing.assert_array_equal(np.concatenate(found), plain.assign(*columns))
    for name in ("node", "attention", "since", "held", "events", "clock"):
        np.testing.assert_array_equal(getattr(native, name), getattr(plain, name))


@pytest.mark.usefixtures("place")
def test_of_those_that_score_alike_the_lowest() -> None:
    partitioner, alone = EventPartitioner.start(np.zeros(6, np.bool_), 3), np.zeros(1)
    ends = [np.array([v], np.int32) for v in range(6)]
    assert [partitioner.assign(ends[v], ends[v + 1], alone).tolist() for v in (0, 2, 4)] == [[0], [1], [2]]


@pytest.mark.usefixtures("place")
def test_average_times_are_kept_close() -> None:
    """Four strangers: the first to the lowest part; then the other has room; then the one whose average comes closer to that of all."""
    partitioner = EventPartitioner.start(np.zeros(8, np.bool_), 2, rule="average")
    part = partitioner.assign(*(np.array(ends, np.int32) for ends in ([0, 2, 4, 6], [1, 3, 5, 7])), np.array([0.0, 1.0, 2.0, 3.0]))
    assert part.tolist() == [0, 1, 0, 1]
    assert partitioner.clock.tolist() == [2.0, 4.0] and partitioner.events.tolist() == [2, 2]


@pytest.mark.usefixtures("place")
def test_a_full_part_gets_no_more_by_average() -> None:
    """A pair that repeats stays until its part holds 1.5 times the mean."""
    partitioner = EventPartitioner.start(np.zeros(2, np.bool_), 2, rule="average")
    part = partitioner.assign(np.zeros(12, np.int32), np.ones(12, np.int32), np.zeros(12))
    assert [int((part[:n] == part[:n].max()).sum()) for n in (1,)] == [1]
    for n in range(4, 13):
        assert np.bincount(part[:n], minlength=2).max() <= 1.5 * n / 2 + 1


@pytest.mark.usefixtures("place")
def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^unknown rule 'atention'; did you mean 'attention'\?$"):
        EventPartitioner.start(np.zeros(2, np.bool_), 2, rule="atention")  # type: ignore[arg-type]
    for parts, decay in ((0, 0.0), (2**31, 0.0), (1, -1.0), (1, np.inf), (1, np.nan)):
        with pytest.raises(
            UserError, match=r"^streaming: shared bool \[2\], .*; expected bool \[N\], at least one part, and a finite decay of"
        ):
            EventPartitioner.start(np.zeros(2, np.bool_), parts, decay)
    partitioner, ids, time = EventPartitioner.start(np.zeros(2, np.bool_), 2), np.zeros(2, np.int32), np.zeros(2)
    for wrong in ((ids, ids[:1], time), (ids.astype(np.int64), ids, time), (ids, ids, time.astype(np.int64))):
        with pytest.raises(UserError, match=r"^streaming: src int\d\d \[2\], .*; expected int32 \[M\], int32 \[M\] and float64 \[M\]$"):
            partitioner.assign(*wrong)
    for src in (ids - 1, ids + 2):
        with pytest.raises(UserError, match=r"^streaming: node ids must lie in \[0, 2\)$"):
            partitioner.assign(src, ids, time)
    for times in ([0.0, np.nan], [0.0, np.inf], [-1.0, 0.0], [1.0, 0.0]):
        with pytest.raises(UserError, match=r"^streaming: times must be finite, not negative, and never fall$"):
            partitioner.assign(ids, ids, np.array(times))
    assert partitioner.assign(ids[:0], ids[:0], time[:0]).size == 0 and (partitioner.node == UNSEEN).all()
