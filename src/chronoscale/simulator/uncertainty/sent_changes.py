"""Sent changes: a simulated epoch in which ranks send each other another share of the changes of shared nodes (MemShare eq. 19)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.strategies.costs import SpecifiedCosts
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.streams.spread.phase import COMMON, SYNCHRONISED_ROWS
from chronoscale.strategies.streams.spread.sharing import Sharing


def usual_times(scenario: Scenario) -> float | None:
    """Return 1 where only significant changes of shared nodes are sent, so that a plan has assumed how many are; of fitted costs none is
    drawn: more rows may be outside of what was profiled."""
    schedule = scenario.schedule
    if schedule.kind != "spread" or not isinstance(scenario.costs, SpecifiedCosts):
        return None
    gathers = bool((schedule.rows[_synchronising(schedule)] > 0).any())
    return 1.0 if gathers and Sharing.of(schedule).synchronised == "significant" else None


def with_times(scenario: Scenario, times: float) -> Scenario:
    """Return a scenario in which so many times as many changes of shared nodes are sent, and written by all ranks; at most all of them."""
    schedule = scenario.schedule
    gathered = _synchronising(schedule)
    times = min(times, float(schedule.nodes[gathered].sum() / schedule.rows[gathered].sum()))
    written = schedule.tasks(Op.MEMORY_WRITE)
    rows, moved = schedule.rows.copy(), schedule.bytes.copy()
    for tasks in (gathered, written[schedule.layer[written] == COMMON]):
        rows[tasks] = np.rint(times * rows[tasks])
        moved[tasks] = np.rint(schedule.bytes[tasks] / np.maximum(schedule.rows[tasks], 1) * rows[tasks])
    return scenario._replace(schedule=replace(schedule, rows=rows, bytes=moved))


def _synchronising(schedule: Schedule) -> Ints:
    """Return the rows by which ranks send each other what becomes of shared nodes, int64: all of them, or those of a group."""
    exchanged: Ints = schedule.tasks(Op.ALLTOALL)
    return np.concatenate([schedule.tasks(Op.ALLGATHER), exchanged[schedule.layer[exchanged] == SYNCHRONISED_ROWS]])
