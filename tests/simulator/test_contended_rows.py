"""Rows that share resources, drawn by chance: both engines to the nanosecond, and both against flows in continuous time."""

from __future__ import annotations

import numpy as np
import pytest
from contended_rows import draw
from fluid_oracle import Fluid
from notation import NsCosts, gpus
from sharing_case import run

from chronoscale.simulator.network import collective_times
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.costs import durations


@pytest.mark.parametrize("first", [0, *(pytest.param(300 * k, marks=pytest.mark.slow) for k in range(1, 34))])
def test_engines_say_the_same(first: int) -> None:
    slowed = 0
    for seed in range(first, first + 300):
        rows = draw(seed, longest=(4, 30, 9000)[seed % 3])
        spans = np.array(run(rows.schedule, rows.shares, launch_ns=rows.launch_ns))
        slowed += int((spans != np.array(run(rows.schedule, None, launch_ns=rows.launch_ns))).any())
    assert slowed > 100, "most schedules have rows that slow others down"


@pytest.mark.parametrize("first", [0, *(pytest.param(50 * k, marks=pytest.mark.slow) for k in range(1, 20))])
def test_rows_end_when_flows_do(first: int) -> None:
    """Within a nanosecond a row, by which each end is rounded, and what such a shift does to others."""
    for seed in range(first, first + 50):
        rows = draw(seed, longest=90_000, launches=False)
        schedule, shares = rows.schedule, rows.shares
        cluster = gpus(schedule.ranks)
        ns, _ = durations(NsCosts(), schedule)
        joined, joined_ns = collective_times.times(schedule, cluster)
        ns[joined] = joined_ns
        flow = {}
        for row, resource, share in rows.entries:
            flow.setdefault(row, ({}, rows.demand[row]))[0][resource] = share
        delay = [rows.delay.get(row, 0) for row in range(len(schedule))]
        dependencies = [schedule.dependencies(row).tolist() for row in range(len(schedule))]
        streams = streams_of(schedule, cluster.device).tolist()
        fluid = Fluid(streams, ns.tolist(), dependencies, schedule.collective.tolist(), flow, delay)
        ends = [end for _, end in run(schedule, shares)]
        assert ends == pytest.approx(fluid.ends(), abs=2 * len(schedule)), seed
