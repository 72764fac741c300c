"""Starts: a row of a CPU rank lasts from when it could start, so that rows fill their thread as they do in a replay."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from notation import write

from chronoscale.real_exec.execution.lanes import CpuLanes, possible_starts
from chronoscale.real_exec.execution.task import tasks_of
from chronoscale.simulator.processes import start_times
from chronoscale.simulator.timeline import Timeline
from chronoscale.strategies.cluster import CPU_STREAMS, Device, Link

TWO = Device("d", 1, 1, 1, Link(1, 0), 0, CPU_STREAMS)
TEXT = "h: GATHER@HOST\na: AGGREGATE@COMPUTE <- h\nb: TEMPORAL@COMPUTE\nx: H2D@H2D <- a\nc: BACKWARD@COMPUTE <- x b"


def test_the_gap_before_a_row_is_its_own() -> None:
    times = np.array([[10, 25, 60, 12, 90], [20, 50, 80, 70, 99]])
    assert possible_starts(times, [0, 0, 0, 1, 0], [[], [], [], [], [3]]).tolist() == [10, 20, 50, 12, 80]
    assert possible_starts(times, [0, 1, 0, 1, 0], [[], [0], [], [1], [3]]).tolist() == [
        10,
        20,
        20,
        12,
        80,
    ]  # 12: never later than it did start


def test_rows_of_one_thread_fill_it() -> None:
    schedule = write("\n".join(f"a{i}: AGGREGATE@COMPUTE" for i in range(50))).schedule
    start, end = CpuLanes(False).run(tasks_of(schedule, 0), lambda task: None)
    assert (start[1:] == end[:-1]).all() and (end >= start).all()


@given(st.lists(st.integers(1, 50), min_size=5, max_size=5), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_a_replay_of_what_was_timed_is_what_was_timed(ns: list[int], gaps: list[int]) -> None:
    """Rows with gaps before them on two threads: their durations replayed, every row starts when `since` says."""
    schedule = write(TEXT).schedule
    of = {lane: i for i, lanes in enumerate(CPU_STREAMS) for lane in lanes}
    tasks = tasks_of(schedule, 0)
    thread, needs = [of[task.lane] for task in tasks], [list(task.deps) for task in tasks]
    times, free = np.zeros((2, 5), np.int64), [0, 0]
    for i in range(5):
        ready = max([free[thread[i]], *(int(times[1, need]) for need in needs[i])])
        first = i in (thread.index(0), thread.index(1)) and not needs[i]
        times[0, i] = ready + (0 if first else gaps[i])
        times[1, i] = free[thread[i]] = times[0, i] + ns[i]
    begin = possible_starts(times, thread, needs)
    timeline = Timeline.of(schedule, TWO, times[1] - begin)
    assert timeline.begin(start_times(timeline)[0]).tolist() == begin.tolist()
