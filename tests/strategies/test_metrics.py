from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write

from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.metrics import (
    Summary,
    busy_ns,
    exposed_communication_ns,
    imbalance,
    occupied_ns,
    parallel_efficiency,
    time_by_op,
)
from chronoscale.strategies.schedule import COLLECTIVES, Lane
from chronoscale.strategies.trace import Trace


def traced(text: str, ranks: int = 1) -> Trace:
    return replay(write(text, ranks).schedule, gpus(ranks), NsCosts())


UNEVEN = traced("b: BACKWARD@COMPUTE ns=10,30\nr: ALLREDUCE@COMM all bytes=40 <- b\no: OPTIMIZE@COMPUTE ns=10 <- r", ranks=2)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 9), st.sampled_from([5, 18])), max_size=25))
def test_busy_time_is_the_union_of_intervals(tasks):
    rank, start, length, op = (np.array(column, np.int64) for column in zip(*tasks, strict=True)) if tasks else (np.zeros(0, np.int64),) * 4
    n = len(tasks)
    lane = np.zeros(n, np.uint8)
    trace = Trace("t", 3, "d", np.arange(n), rank.astype(np.int32), lane, op.astype(np.uint8), start, start + length, start, lane)
    covered, all_covered = ([set() for _ in range(3)] for _ in range(2))
    for at, begin, ns, code in tasks:
        all_covered[at] |= set(range(begin, begin + ns))
        if code not in COLLECTIVES:
            covered[at] |= set(range(begin, begin + ns))
    assert busy_ns(trace).tolist() == [len(moments) for moments in covered]
    assert occupied_ns(trace).tolist() == [len(moments) for moments in all_covered]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 9), st.sampled_from(list(Lane))), max_size=25))
def test_time_in_communication_alone_is_that_outside_of_all_computing(tasks):
    rank, start, length, lane = (
        (np.array(column, np.int64) for column in zip(*tasks, strict=True)) if tasks else (np.zeros(0, np.int64),) * 4
    )
    none = np.zeros(len(tasks), np.uint8)
    trace = Trace(
        "t", 3, "d", np.arange(len(tasks)), rank.astype(np.int32), lane.astype(np.uint8), none, start, start + length, start, none
    )
    communicates, computes = [set() for _ in range(3)], [set() for _ in range(3)]
    for at, begin, ns, where in tasks:
        if where is Lane.COMM:
            communicates[at] |= set(range(begin, begin + ns))
        elif where in (Lane.COMPUTE, Lane.COMPUTE2):
            computes[at] |= set(range(begin, begin + ns))
    assert exposed_communication_ns(trace).tolist() == [len(one - other) for one, other in zip(communicates, computes, strict=True)]


def test_imbalance_leaves_waiting_out():
    assert imbalance(UNEVEN) == 2.0  # 40 ns of work against 20, both ranks in the all-reduce until 70
    assert imbalance(traced("b: BACKWARD@COMPUTE rank=0", ranks=2)) == float("inf")


def test_a_summary():
    summary = Summary.of([UNEVEN, replace(UNEVEN, end_ns=UNEVEN.end_ns + np.arange(6) * 2), UNEVEN])
    assert (summary.ranks, summary.repeats, summary.epoch_s) == (2, 3, 80e-9)
    assert summary.spread_s == pytest.approx(2.5e-9)
    assert summary.collective_s == pytest.approx(40e-9)
    assert summary.utilisation == pytest.approx(30 / 80)
    assert summary.sources == "measured, specified"


def test_time_by_op():
    assert time_by_op(UNEVEN).to_dict() == pytest.approx({"BACKWARD": 40e-9, "OPTIMIZE": 20e-9, "ALLREDUCE": 80e-9})


def test_parallel_efficiency_is_throughput_a_gpu_over_the_smallest_run():
    assert parallel_efficiency({1: 8.0, 2: 5.0, 4: 2.0}) == {1: 1.0, 2: 0.8, 4: 1.0}
    assert parallel_efficiency({8: 1.0, 4: 2.0}) == {4: 1.0, 8: 1.0}
    assert parallel_efficiency({}) == {}
