"""Clocks of several machines, and times on one scale."""

import queue
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.real_exec.ranks import clock
from chronoscale.real_exec.ranks.clock import Offset, RankClock, uncertainty_ns

DAYS = 10**15  # ns: machines were not started together
WAY = st.integers(1, 10**9)


@given(st.integers(-DAYS, DAYS), st.lists(st.tuples(st.integers(0, 10**12), WAY, WAY), min_size=1, max_size=40))
def test_the_error_of_an_offset_is_never_more_than_it_says(ahead: int, trips: list[tuple[int, int, int]]) -> None:
    """However long either way takes, and whenever."""
    offset = Offset.of(np.array([(sent, sent + there + ahead, sent + there + back) for sent, there, back in trips], np.int64))
    assert abs(offset.ahead - ahead) <= offset.error
    assert offset.error == -(-min(there + back for _, there, back in trips) // 2)


@given(st.integers(-DAYS, DAYS), st.floats(-1e-4, 1e-4), st.integers(10**6, 10**12), st.integers(0, 10**4), st.floats(0, 1))
def test_times_in_between_are_those_of_the_first_machine(ahead: int, drift: float, length: int, error: int, share: float) -> None:
    """Of clocks that drift apart evenly, and are DAYS apart."""

    def first(own: int) -> int:
        return own + ahead + round((own - DAYS) * drift)

    ends = [np.array([(0, 0, 0), (own, first(own) - own, error)], np.int64) for own in (DAYS, DAYS + length)]
    between = DAYS + int(share * length)
    aligned = RankClock(3, (0, 2)).to_common(np.array([between]), *ends)
    assert abs(int(aligned[0]) - first(between)) <= 2
    assert uncertainty_ns(*ends) == error


def test_one_machine_needs_no_measurement() -> None:
    own = RankClock(3)
    before, times = own.measure(), np.array([5, DAYS])
    assert own.to_common(times, before, own.measure()).tolist() == times.tolist() and uncertainty_ns(before) == 0


def test_two_machines_may_differ_by_both_of_their_errors() -> None:
    before, after = np.array([(0, 0, 0), (9, 9, 30), (9, 9, 8)]), np.array([(0, 0, 0), (9, 9, 5), (9, 9, 40)])
    assert uncertainty_ns(before, after) == 70


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[RankClock]:
    """Those of five ranks on three machines, each of which reads a day more than the one before, and takes a second between two looks.

    Each rank is a thread; a collective is a sum in memory.
    """
    first_ranks, machines, ticks = (0, 2, 3), (0, 0, 1, 2, 2), [0] * 5
    mail = {(source, target): queue.Queue[int]() for source in range(5) for target in range(5)}
    barrier, sums = threading.Barrier(5), list[np.ndarray]()
    rank_of_thread = threading.local()

    def now() -> int:
        ticks[rank_of_thread.rank] += 1
        return ticks[rank_of_thread.rank] * 10**9 + machines[rank_of_thread.rank] * DAYS

    def all_reduce(values: object, group: object) -> None:
        sums.append(values)  # type: ignore[arg-type]
        barrier.wait()
        total = sum(each.clone() for each in sums)
        if barrier.wait() == 0:
            sums.clear()
        barrier.wait()
        values.copy_(total)  # type: ignore[attr-defined]

    class Fake(RankClock):
        def measure(self) -> np.ndarray:
            rank_of_thread.rank = self._rank
            return super().measure()

        def _send(self, value: int, rank: int) -> None:
            mail[self._rank, rank].put(value)

        def _receive(self, rank: int) -> int:
            return mail[rank, self._rank].get(timeout=10)

    monkeypatch.setattr(clock.time, "perf_counter_ns", now)
    monkeypatch.setattr(clock.dist, "all_reduce", all_reduce)
    return [Fake(rank, first_ranks) for rank in range(5)]


def test_every_machine_is_measured_against_the_first(clocks: list[RankClock]) -> None:
    offsets = dict[int, np.ndarray]()
    threads = [threading.Thread(target=lambda own=own: offsets.update({own._rank: own.measure()})) for own in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.tobytes() for each in offsets.values()}) == 1
    assert np.abs(offsets[0][:, 1] + np.arange(3) * DAYS).max() < 200 * 10**9 and offsets[0][0].tolist() == [0, 0, 0]
    assert [own.offset for own in clocks] == [Offset(*offsets[0][machine].tolist()) for machine in (0, 0, 1, 2, 2)]
    assert (offsets[0][1:, 2] == 10**9 // 2).all()
