"""Fit: what repeats of a schedule come to, and the curves drawn through them, from durations that are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from notation import Written, write

from chronoscale.real_exec.fit import fit, tabulate
from chronoscale.real_exec.interpreter import Pass, medians, rendezvous
from chronoscale.strategies.costs import RANGED
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.trace import Source, Trace


def repeats(written: Written, *durations: list[int]) -> list[Pass]:
    """Rows one after another, each so long; one list a repeat."""
    schedule = written.schedule
    source = np.full(len(schedule), Source.MEASURED, np.uint8)
    ends: list[Ints] = [np.cumsum(np.array(each, np.int64)) for each in durations]
    traces = [Trace.of(schedule, end - np.array(each), end, source, "d") for end, each in zip(ends, durations, strict=True)]
    return [Pass(trace, np.zeros(schedule.iterations)) for trace in traces]


def test_waiting_is_no_work() -> None:
    schedule = write("b: BACKWARD@COMPUTE\nr: ALLREDUCE@COMM all <- b\no: OPTIMIZE@COMPUTE <- r", ranks=3).schedule
    start = np.array([0, 0, 0, 10, 30, 20, 41, 42, 43])
    end = np.array([10, 30, 20, 40, 41, 42, 50, 50, 50])
    assert rendezvous(schedule, start, end).tolist() == [0, 0, 0, 30, 30, 30, 41, 42, 43]
    end[3] = 25  # clocks are read apart: nothing ends before it starts
    assert rendezvous(schedule, start, end).tolist()[3:6] == [25, 30, 30]


def test_a_median_leaves_out_what_stands_apart() -> None:
    written = write("a: AGGREGATE@COMPUTE\nb: TRANSFORM@COMPUTE")
    found = repeats(written, [10, 5], [12, 5], [11, 7], [13, 9], [10**6, 9])
    assert medians(found).tolist() == [12, 7]  # of 10, 11, 12, 13, where 11.5 is rounded to even; of 5, 5, 7, 9, 9
    table = tabulate([(written.schedule, repeats(written, [10, 5], [10, 5]))])
    assert table["ns"].tolist() == [10, 5] and table["spread"].tolist() == [0, 0] and not table["alone"].any()


def profile(op: str, ns: object, **columns: object) -> pd.DataFrame:
    same = dict.fromkeys(RANGED, 1) | {"lane": "", "width": 8, "collective": -1, "ranks": 1, "alone": False, "spread": 0.0}
    return pd.DataFrame({**same, **columns, "op": op, "ns": ns})


def test_a_curve_comes_back() -> None:
    """REAL eq. 16 with known coefficients."""
    rng = np.random.default_rng(0)
    nodes, edges = rng.integers(10, 1000, 40), rng.integers(10, 9000, 40)
    (curve,) = fit(profile("AGGREGATE", 3 * nodes + 2 * edges + 500, nodes=nodes, edges=edges), "d", {}).fits
    assert curve.form == "eq16" and curve.coefficients == pytest.approx((3, 2, 500), rel=1e-6) and curve.held_out_error < 1e-6
    assert (curve.low["edges"], curve.high["edges"], curve.samples) == (edges.min(), edges.max(), 40)


def test_a_ring_has_its_latency_and_bandwidth() -> None:
    """2 (P - 1) alpha + 2 (P - 1) / P n / B: back to back, and after computing, where ranks have to be woken."""
    ranks, size = (grid.ravel() for grid in np.meshgrid([2, 3, 4], [1_000, 50_000, 2_000_000]))
    moved = 2 * (ranks - 1) / ranks * size / 5  # 5 bytes a ns
    alone = profile("ALLREDUCE", moved + 2 * (ranks - 1) * 700, ranks=ranks, bytes=size, alone=True)
    link = fit(alone, "d", {}).collective
    assert link is not None and link.bandwidth == pytest.approx(5e9, rel=1e-6) and link.latency_s == pytest.approx(700e-9, rel=1e-6)
    woken = profile("ALLREDUCE", moved + 2 * (ranks - 1) * 9_000, ranks=ranks, bytes=size)
    link = fit(pd.concat([alone, woken]), "d", {}).collective
    assert link is not None and link.bandwidth == pytest.approx(5e9, rel=1e-6) and link.latency_s == pytest.approx(9e-6, rel=1e-6)


def test_an_all_gather_has_its_own() -> None:
    """(P - 1) alpha + (P - 1) n / B."""
    ranks, size = (grid.ravel() for grid in np.meshgrid([2, 3, 4], [1_000, 50_000, 2_000_000]))
    gathered = profile("ALLGATHER", (ranks - 1) * (8_000 + size / 2), ranks=ranks, bytes=size)
    found = fit(gathered, "d", {})
    assert found.collective is None and not found.fits and found.gather is not None
    assert found.gather.bandwidth == pytest.approx(2e9, rel=1e-6) and found.gather.latency_s == pytest.approx(8e-6, rel=1e-6)
    idle = profile("ALLGATHER", np.full(9, 4e6), ranks=np.full(9, 4), bytes=np.zeros(9, np.int64))  # they wait for the others' shares
    assert fit(pd.concat([gathered, idle]), "d", {}).gather == found.gather and fit(idle, "d", {}).gather is None
