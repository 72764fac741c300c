"""Fit: what repeats of a schedule come to, and the curves drawn through them, from durations that are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notation import Written, write
from sklearn.linear_model import LinearRegression

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.interpreter import rendezvous
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement.fit import fit, tabulate_samples, with_enough_samples
from chronoscale.real_exec.measurement.repeats import counted_passes, mean_durations, rank_sway
from chronoscale.strategies.costing.curves import DESCRIBED
from chronoscale.strategies.costs import FORMS, Floats
from chronoscale.strategies.schedule import Ints, Schedule
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


@pytest.mark.parametrize(("passes", "left"), [(1, 1), (2, 2), (6, 6), (7, 5), (13, 11), (14, 10)])
def test_a_seventh_of_the_passes_is_left_out_at_either_end(passes: int, left: int) -> None:
    totals = np.random.default_rng(passes).permutation(passes)
    remaining = counted_passes(totals)
    assert remaining.sum() == left and sorted(totals[remaining]) == list(range((passes - left) // 2, passes - (passes - left) // 2))


def test_means_add_up_to_the_passes_that_count() -> None:
    written = write("a: AGGREGATE@COMPUTE\nb: TRANSFORM@COMPUTE")
    result = repeats(written, [10, 5], [12, 5], [11, 7], [13, 9], [10, 8], [14, 9], [10**6, 9])  # the longest and the shortest are left out
    assert mean_durations(result).tolist() == [12, 7.6]
    table = tabulate_samples([(written.schedule, repeats(written, [10, 5], [20, 10]))])
    assert table["ns"].tolist() == [15, 7.5] and table["spread"].tolist() == [0, 0]  # a pass twice as slow is drift, no jitter
    assert not table["alone"].any()


def profile(op: str, ns: object, **columns: object) -> pd.DataFrame:
    same = dict.fromkeys(DESCRIBED, 1) | {"lane": "", "variant": 0, "width": 8, "collective": -1, "ranks": 1, "alone": False, "spread": 0.0}
    same["clock_ns"] = 0
    return pd.DataFrame({**same, **columns, "op": op, "ns": ns})


def noise(rng: np.random.Generator, *shape: int) -> Floats:
    """Of mean 1 and 20 % spread, log-normal; one in a hundred rows takes five times as long."""
    level = np.sqrt(np.log(1.04))
    drawn = rng.lognormal(-(level**2) / 2, level, shape) * np.where(rng.random(shape) < 0.01, 5.0, 1.0)
    return np.asarray(drawn / 1.04, np.float64)


@pytest.mark.slow
def test_predicted_sums_are_those_that_were_measured() -> None:
    """The sum over a schedule's rows of what a fit predicts is its expected time within one percent, in the mean of 100 profiles of 7
    passes with 20 % spread and a heavy tail: four of their standard errors. Medians with weights of 1 over the square of what was measured,
    which have been used before, are more than 4 % short."""
    rng = np.random.default_rng(7)
    nodes, edges = rng.integers(100, 1000, 160), rng.integers(500, 9000, 160)
    true = 3.0 * nodes + 2.0 * edges + 500
    others = np.stack([nodes[:40] * 0.7, edges[:40] * 0.9, np.ones(40)], axis=1)  # other rows than those that were fitted
    off, before = [], []
    for _ in range(100):
        drawn = true * noise(rng, 7, len(true))
        remaining = drawn[counted_passes(np.rint(drawn.sum(1)).astype(np.int64))].mean(0)
        (curve,) = fit(profile("AGGREGATE", remaining, nodes=nodes, edges=edges), "d", {}).fits
        features = np.stack([nodes, edges, np.ones(160)], axis=1)
        predicted = FORMS[curve.form].features({name: np.ones(40) for name in DESCRIBED} | {"nodes": others[:, 0], "edges": others[:, 1]})
        exact = float(others @ [3, 2, 500] @ np.ones(40))
        off.append(float((predicted @ np.asarray(curve.coefficients)).sum()) / exact - 1)
        middle = np.median(drawn[:3], axis=0)
        old = LinearRegression(fit_intercept=False, positive=True).fit(features, middle, sample_weight=middle**-2.0).coef_
        before.append(float((others @ old).sum()) / exact - 1)
    error = np.std(off) / np.sqrt(len(off))
    assert abs(np.mean(off)) < 0.01 and error < 0.0025, (np.mean(off), error)
    assert np.mean(before) < -0.04, np.mean(before)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**4), st.integers(1, 10**5), st.floats(10, 1e6)), min_size=8, max_size=30, unique_by=lambda r: r[:2]
    )
)
def test_what_is_fitted_adds_up(rows: list[tuple[int, int, float]]) -> None:
    """Whatever the form misses and whatever the noise: predicted and measured time of all samples are one."""
    nodes, edges, ns = (np.array(column) for column in zip(*rows, strict=True))
    (curve,) = fit(profile("AGGREGATE", ns, nodes=nodes, edges=edges, rows=nodes, bytes=edges), "d", {}).fits
    described = {name: np.ones(len(ns)) for name in DESCRIBED} | {"nodes": nodes, "edges": edges, "rows": nodes, "bytes": edges}
    predicted = FORMS[curve.form].features(described) @ np.asarray(curve.coefficients)
    assert predicted.sum() == pytest.approx(ns.sum(), rel=1e-9)


def test_rows_that_are_described_alike_count_with_their_mean() -> None:
    """Twelve sizes, each three times, now and then ten times as long: what is predicted of all adds up to what all took."""
    size = np.repeat(np.arange(1, 13), 3)
    ns = 100.0 * size * np.tile([1.0, 1.0, 10.0], 12)
    (curve,) = fit(profile("COPY", ns, bytes=size), "d", {}).fits
    predicted = FORMS[curve.form].features({name: np.ones(36) for name in DESCRIBED} | {"bytes": size}) @ np.asarray(curve.coefficients)
    assert curve.samples == 12 and predicted.sum() == pytest.approx(ns.sum())


def test_a_form_is_not_chosen_where_its_error_is_told() -> None:
    """What the samples told on take twice as long for changes the error that is told, signed, and no form and no error of another."""
    nodes, edges = np.arange(10, 410, 10), np.random.default_rng(2).integers(10, 9000, 40)
    ns = 3.0 * nodes + 2.0 * edges + 500
    reported = np.random.default_rng(5).permutation(40)[:10]
    twice = ns.copy()
    twice[reported] *= 2
    (before,), (after,) = (fit(profile("AGGREGATE", each, nodes=nodes, edges=edges), "d", {}, 5).fits for each in (ns, twice))
    assert before.held_out_error < 1e-6 and before.bias == pytest.approx(0, abs=1e-6)
    assert after.held_out_error == pytest.approx(0.5) and after.bias == pytest.approx(-0.5)
    assert after.form == before.form == "eq16" and after.alternatives == pytest.approx(before.alternatives)


def test_implementations_have_curves_of_their_own() -> None:
    nodes = np.arange(10, 90)
    table = pd.concat([profile("TRANSFORM", 5 * nodes + n, rows=nodes, variant=v) for v, n in ((0, 100), (1, 900))])
    results = {each.variant: each for each in fit(table, "d", {}).fits}
    assert results.keys() == {0, 1}
    for variant, extra in ((0, 100), (1, 900)):
        form = FORMS[results[variant].form].features({name: np.full(1, 50.0 if name == "rows" else 1.0) for name in DESCRIBED})
        assert (form @ np.asarray(results[variant].coefficients))[0] == pytest.approx(250 + extra)


def test_curves_that_were_hardly_seen_are_left_out() -> None:
    table = pd.concat([profile("TRANSFORM", [5.0] * 4), profile("COPY", [5.0] * 3), profile("ALLREDUCE", [7.0])])
    assert set(with_enough_samples(table)["op"]) == {"TRANSFORM", "ALLREDUCE"}
    with pytest.raises(UserError, match=r"^profile: COPY at width 8 has 3 samples, at least 4 are needed$"):
        fit(table, "d", {})


def jittered(rng: np.random.Generator, own: float, rank: float, drift: float) -> tuple[Schedule, list[Pass]]:
    """Two ranks, 6 iterations of 20 rows of about 1 us, 40 passes; deviations of a row, of a rank's iteration, and of a pass."""
    text = "\n".join([f"a{i}: AGGREGATE@COMPUTE iteration={i // 20}" for i in range(120)])
    schedule = write(text, ranks=2).schedule
    passes = []
    for _ in range(40):
        factor = (1 + rank * rng.standard_normal((2, 6)))[schedule.rank, schedule.iteration] * (1 + drift * rng.standard_normal())
        ns = np.rint(1e6 * factor * (1 + own * rng.standard_normal(len(schedule)))).astype(np.int64)
        begin = np.zeros(len(schedule), np.int64)
        passes.append(Pass(Trace.of(schedule, begin, ns, np.zeros(len(schedule), np.uint8), "d"), np.zeros(6)))
    return schedule, passes


@pytest.mark.parametrize(("own", "rank", "drift"), [(0.05, 0, 0), (0.05, 0.03, 0.0), (0.02, 0.03, 0.2), (0, 0, 0.1)])
def test_jitter_of_rows_and_of_ranks_are_told_apart_from_drift(own: float, rank: float, drift: float) -> None:
    schedule, passes = jittered(np.random.default_rng(1), own, rank, drift)
    table = tabulate_samples([(schedule, passes)])
    (curve,) = fit(table, "d", {}).fits
    assert curve.spread == pytest.approx(np.hypot(own, rank), rel=0.15, abs=1e-5)
    assert rank_sway([(schedule, passes)]) == pytest.approx(rank, rel=0.25, abs=0.005)
    assert rank_sway([(schedule, passes[:1])]) == 0 and rank_sway([]) == 0


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
    single = profile("ALLREDUCE", moved + 2 * (ranks - 1) * 700, ranks=ranks, bytes=size, alone=True)
    link = fit(single, "d", {}).collective
    assert link is not None and link.bandwidth == pytest.approx(5e9, rel=1e-6) and link.latency_s == pytest.approx(700e-9, rel=1e-6)
    woken = profile("ALLREDUCE", moved + 2 * (ranks - 1) * 9_000, ranks=ranks, bytes=size)
    link = fit(pd.concat([single, woken]), "d", {}).collective
    assert link is not None and link.bandwidth == pytest.approx(5e9, rel=1e-6) and link.latency_s == pytest.approx(9e-6, rel=1e-6)


def test_an_all_gather_has_its_own() -> None:
    """(P - 1) alpha + (P - 1) n / B."""
    ranks, size = (grid.ravel() for grid in np.meshgrid([2, 3, 4], [1_000, 50_000, 2_000_000]))
    gathered = profile("ALLGATHER", (ranks - 1) * (8_000 + size / 2), ranks=ranks, bytes=size)
    result = fit(gathered, "d", {})
    assert result.collective is None and not result.fits and result.gather is not None
    assert result.gather.bandwidth == pytest.approx(2e9, rel=1e-6) and result.gather.latency_s == pytest.approx(8e-6, rel=1e-6)
    idle = profile("ALLGATHER", np.full(9, 4e6), ranks=np.full(9, 4), bytes=np.zeros(9, np.int64))  # they wait for the others' shares
    assert fit(pd.concat([gathered, idle]), "d", {}).gather == result.gather and fit(idle, "d", {}).gather is None
