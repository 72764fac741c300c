"""Transfers that are held to a rate, as over a bus that a CPU rank does not have."""

from __future__ import annotations

import time

import pytest
from stream_case import choice, hyper, planned, prepared, stream

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Settings
from chronoscale.strategies.schedule import Lane, Op, Schedule

RATE = 1e8  # bytes a second: 10 ns a byte


def task(number: int, lane: Lane, size: int) -> Task:
    return Task(number, Op.H2D, lane, 0, 0, 0, -1, size, ())


@pytest.mark.parametrize("threaded", [False, True])
def test_a_transfer_takes_its_bytes_time_and_no_other_row_does(threaded: bool) -> None:
    tasks = [task(0, Lane.H2D, 300_000), task(1, Lane.D2H, 500_000), task(2, Lane.COMPUTE, 10**9), task(3, Lane.HOST, 10**9)]
    begin, end = CpuLanes(threaded, RATE).run(tasks, lambda task: None)
    taken = (end - begin).tolist()
    assert taken[0] >= 3_000_000 and taken[1] >= 5_000_000
    assert max(taken[2:]) < 1_000_000_000  # of ten, were they held to it


def test_what_takes_longer_is_not_held_up() -> None:
    """The time of the copy itself counts."""
    begin, end = CpuLanes(False, 1e12).run([task(0, Lane.H2D, 1000)], lambda task: time.sleep(0.002))
    assert 2_000_000 <= end[0] - begin[0] < 1_000_000_000


def test_ranks_have_the_rate_that_is_asked_for(tmp_path) -> None:
    folder = prepared(tmp_path, stream())
    schedule: Schedule = planned(folder, choice("tgn"), hyper("tgn"))
    built = {bus: Context(Settings(bus=bus)).lanes(schedule) for bus in (0.0, RATE)}
    times = {bus: lanes.run([task(0, Lane.H2D, 400_000)], lambda task: None) for bus, lanes in built.items()}
    assert times[RATE][1][0] - times[RATE][0][0] >= 4_000_000 > times[0.0][1][0] - times[0.0][0][0]
