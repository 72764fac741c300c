"""The native replay: what it refuses. What it says is held to SimPy's processes in tests/simulator."""

from __future__ import annotations

import numpy as np
import pytest

from chronoscale.cuda_ext.native import arguments
from chronoscale.cuda_ext.scheduling import replay as made
from chronoscale.cuda_ext.scheduling.replay import HostTurns, ResourceShares, ScheduleRows, replay
from chronoscale.errors import ChronoscaleWarning, UserError

LINES = ScheduleRows(
    2, np.array([0, 1, 0], np.int32), np.array([5, 7, 2]), 1, np.array([-1, 0, -1]), np.array([0, 0, 1, 2]), np.array([0, 1])
)
TURNS = HostTurns(1, np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(1, np.int64), np.array([4]), np.array([-1]))
TAKEN = ResourceShares(1, np.zeros(3, np.int64), np.ones(3), np.array([0, 1, 2, 2]), np.zeros(2, np.int32), np.array([0.5, 1.0]))


def test_a_small_one() -> None:
    trace = replay(LINES, None, None)
    assert trace is not None and [one.tolist() for one in trace] == [[0, 5, 12], [5, 12, 14]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": np.array([0, 2, 0], np.int32)},
        {"stream": np.array([0, -1, 0], np.int32)},
        {"streams": -1},
        {"ns": np.array([5, -7, 2])},
        {"collective": np.array([-1, 1, -1])},
        {"collective": np.array([-2, 0, -1])},
        {"groups": -1},
        {"dep": np.array([0, 3])},
        {"dep": np.array([-1, 1])},
        {"dep_ptr": np.array([0, 2, 1, 2])},
    ],
)
def test_rows_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"^replay: a stream, row, collective, turn or resource is out of range"):
        replay(LINES._replace(**wrong), None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"turn": np.array([0, 1, 0])},
        {"turn": np.array([0, -1, 0])},
        {"host": np.array([1])},
        {"gate": np.array([3])},
        {"gate": np.array([-2])},
        {"hosts": -1},
        {"turn": np.zeros(3, np.int64), "after": np.zeros(3, np.int64), "host": np.array([1, 0]), "length": np.zeros(2, np.int64)}
        | {"gate": np.full(2, -1), "hosts": 2},
    ],
)
def test_turns_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"^replay: .* is out of range"):
        replay(LINES, TURNS._replace(**wrong), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": np.array([0.5, 0.0])},
        {"share": np.array([0.5, 1.5])},
        {"share": np.array([0.5, np.nan])},
        {"resource": np.array([0, 1], np.int32)},
        {"resource": np.array([0, -1], np.int32)},
        {"delay": np.array([0, -1, 0])},
        {"demand": np.array([1.0, 0.0, 1.0])},
        {"demand": np.array([np.inf, 1.0, 1.0])},
        {"demand": np.array([1.0, np.nan, 1.0])},
        {"ptr": np.array([0, 2, 1, 2])},
        {"ptr": np.array([1, 1, 2, 2])},
    ],
)
def test_shares_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"^replay: .* is out of range, or a length, demand or share is not positive"):
        replay(LINES, None, TAKEN._replace(**wrong))


def test_arrays_of_another_kind_are_refused() -> None:
    for wrong in (
        {"ns": np.zeros(2, np.int64)},
        {"ns": np.zeros(3)},
        {"stream": np.zeros(3, np.int64)},
        {"dep": np.zeros(6, np.int64)[::3]},
    ):
        with pytest.raises(UserError, match=r"; expected contiguous int(32|64) "):
            replay(LINES._replace(**wrong), None, None)
    with pytest.raises(UserError, match=r"^gate is <i8 \[2\]; expected contiguous int64 \[1\]"):
        replay(LINES, TURNS._replace(gate=np.zeros(2, np.int64)), None)
    with pytest.raises(UserError, match=r"^share is <f8 \[3\]; expected contiguous float64 \[2\]"):
        replay(LINES, None, TAKEN._replace(share=np.ones(3)))


def test_without_a_library_nothing_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "cpu_library_or_warn", lambda _: None)
    assert replay(LINES, TURNS, TAKEN) is None


def test_the_warning_without_one(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(arguments, "cpu_library", lambda: None)
    arguments.cpu_library_or_warn.cache_clear()
    try:
        with pytest.warns(ChronoscaleWarning, match="no native library: schedules are replayed in Python"):
            assert replay(LINES, None, None) is None
    finally:
        arguments.cpu_library_or_warn.cache_clear()
