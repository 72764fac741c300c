"""Launches counted natively equal those in NumPy: of random schedules, and of every strategy's."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from golden_spans import CASES, CLUSTER, COSTS, planned
from hypothesis import given
from hypothesis import strategies as st
from random_schedules import schedules

from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network import collective_times
from chronoscale.strategies.costs import durations
from chronoscale.strategies.schedule import Ints, Schedule


def assert_same(schedule: Schedule, ns: Ints, launch_ns: int) -> None:
    native = Launches.of(schedule, ns, launch_ns)
    if native is None:
        assert not launch_ns or not schedule.kernels.any()
        return
    reference = Launches.in_numpy(schedule, ns, np.full(len(schedule), launch_ns))
    for field in fields(Launches):
        columns, expected = getattr(native, field.name), getattr(reference, field.name)
        assert columns.dtype == expected.dtype and columns.tolist() == expected.tolist(), field.name


@st.composite
def launched(draw: st.DrawFn) -> tuple[Schedule, Ints]:
    """A schedule whose rows may belong to an earlier iteration than the rows before them, or to none; and what they take."""
    schedule = draw(schedules())
    rows = len(schedule)
    earlier = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    ns = draw(st.lists(st.integers(0, 30), min_size=rows, max_size=rows))
    return replace(schedule, iteration=np.maximum(schedule.iteration - np.array(earlier, np.int32), -1)), np.array(ns, np.int64)


@given(launched(), st.sampled_from([0, 1, 4, 11]))
def test_of_random_schedules(case, launch_ns):
    assert_same(*case, launch_ns)


@pytest.mark.sample(33)
@pytest.mark.parametrize("name", CASES)
def test_of_every_strategy(name):
    schedule = planned(name)
    ns, _ = durations(COSTS, schedule)
    rows, collective_rows = collective_times.times(schedule, CLUSTER)
    ns[rows] = collective_rows
    for launch_ns in (COSTS.launch_ns, 100):
        assert_same(schedule, ns, launch_ns)
