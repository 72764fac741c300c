"""Sent changes: an epoch in which other shares of the changes of shared nodes are sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import NsCosts, gpus, write

from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.sent_changes import usual_times, with_times
from chronoscale.simulator.uncertainty.spec import CERTAIN
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Op

ROWS = """
s: ALLGATHER@COMM all nodes=10,20 rows=4,8 bytes=40,80
w: MEMORY_WRITE@HOST layer=1 rows=12 bytes=60 <- s
o: MEMORY_WRITE@HOST layer=0 rows=9 bytes=90
r: ALLREDUCE@COMM all bytes=100
"""
FEEDING = "parts {} decay shared smooth negatives pipelined"


def scenario(synchronised: str = "significant", kind: str = "spread", rows: str = ROWS) -> Scenario:
    schedule = replace(write(rows, 2).schedule, kind=kind, feeding=FEEDING.format(synchronised))
    where = gpus(2, 2)
    return Scenario(schedule, where, DatasheetCosts(where.device), CERTAIN)


GROUPED = ROWS.replace("ALLGATHER@COMM all", "ALLTOALL@COMM all layer=3") + "f: ALLTOALL@COMM all layer=1 nodes=50 rows=50 bytes=70"


@pytest.mark.parametrize("op", [Op.ALLGATHER, Op.ALLTOALL])
@pytest.mark.parametrize(("times", "gathered", "written"), [(1, [4, 8], 12), (0.5, [2, 4], 6), (2, [8, 16], 24), (4, [10, 20], 30)])
def test_what_is_sent_and_heard_grows_alike(times: float, gathered: list[int], written: int, op: Op) -> None:
    """Up to all changes, of which there are two and a half times as many; what a rank writes of its own, and what it fetches, stays. So
    it is where groups of ranks send them by all-to-alls."""
    given = scenario(rows=ROWS if op is Op.ALLGATHER else GROUPED)
    schedule = with_times(given, times).schedule
    rows = (schedule.op == op) & (schedule.layer != 1)
    assert schedule.bytes[(schedule.op == Op.ALLTOALL) & (schedule.layer == 1)].tolist() == [70, 70] * (op is Op.ALLTOALL)
    assert schedule.rows[rows].tolist() == gathered and schedule.bytes[rows].tolist() == [10 * each for each in gathered]
    common, own = ((schedule.op == Op.MEMORY_WRITE) & (schedule.layer == layer) for layer in (1, 0))
    assert schedule.rows[common].tolist() == [written] * 2 and schedule.bytes[common].tolist() == [5 * written] * 2
    assert schedule.rows[own].tolist() == [9, 9] and schedule.bytes[own].tolist() == [90, 90]
    assert np.array_equal(schedule.nodes, given.schedule.nodes) and schedule.bytes[schedule.op == Op.ALLREDUCE].tolist() == [100, 100]


def test_it_matters_where_a_share_was_assumed() -> None:
    assert usual_times(scenario()) == usual_times(scenario(rows=GROUPED)) == 1.0
    assert usual_times(scenario("all")) is None and usual_times(scenario("never")) is None and usual_times(scenario(kind="events")) is None
    assert usual_times(scenario()._replace(costs=NsCosts())) is None  # type: ignore[arg-type]
    nothing = scenario()
    nothing = nothing._replace(schedule=replace(nothing.schedule, rows=np.zeros_like(nothing.schedule.rows)))
    assert usual_times(nothing) is None
