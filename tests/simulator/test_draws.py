from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, each, gpus, write
from profiles import examples
from random_schedules import schedules
from replay_oracle import oracle

from chronoscale.errors import UserError
from chronoscale.simulator.engine import replay
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.uncertainty.draws import Draws, epoch_spans, middle_draw
from chronoscale.simulator.uncertainty.spec import CERTAIN, DeviceClass, Stragglers, Uncertainty
from chronoscale.strategies.costs import Fit, FittedCosts
from chronoscale.strategies.schedule import Op

JITTER = Uncertainty(jitter=0.3)
CHAIN = """
    x0: TEMPORAL@COMPUTE rank=0 ns=1000
    s0: SEND@COMM rank=0 group=0 bytes=4 <- x0
    r1: RECV@COMM rank=1 group=0 bytes=4
    x1: TEMPORAL@COMPUTE rank=1 ns=1000 <- r1
    s1: SEND@COMM rank=1 group=1 bytes=6 <- x1
    r2: RECV@COMM rank=2 group=1 bytes=6
    x2: TEMPORAL@COMPUTE rank=2 ns=1000 <- r2"""
STEP = ("h{b}: H2D@H2D ns=100 iteration={b}", "b{b}: BACKWARD@COMPUTE ns=1000 iteration={b} <- h{b} o{p}?",
        "r{b}: ALLREDUCE@COMM all bytes=30 iteration={b} <- b{b}", "o{b}: OPTIMIZE@COMPUTE ns=10 iteration={b} <- r{b}")  # fmt: skip


def taken(found: Draws, draw: int) -> np.ndarray:
    """What rows take in a draw, ns."""
    return np.rint(found.uncontended.ns * found.factors(draw)[0]).astype(np.int64)


def drawn(text: str, ranks: int, uncertainty: Uncertainty, draws: int = 1, per_node: int | None = None) -> list[int]:
    return epoch_spans(write(text, ranks).schedule, gpus(ranks, per_node), NsCosts(), uncertainty, draws, seed=3).tolist()


@given(schedule=schedules(), data=st.data())
def test_draws_are_replays_of_what_their_rows_take(schedule, data):
    uncertainty = Uncertainty(data.draw(st.sampled_from([0.0, 0.5])), data.draw(st.sampled_from([0.0, 0.5])))
    draws_ = Draws.of(schedule, gpus(schedule.ranks), NsCosts(), uncertainty, seed=1)
    expected = oracle(schedule, gpus(schedule.ranks), taken(draws_, 2))
    if expected is None:
        with pytest.raises(UserError, match="deadlocks"):
            draws_.span(2)
        return
    trace = draws_.trace(2)
    assert (trace.start_ns.tolist(), trace.end_ns.tolist()) == expected
    assert trace.span_ns == draws_.span(2)


@given(schedule=schedules(), seed=st.integers(0, 99))
def test_a_host_that_is_slower_for_some_rows_launches_them_later(schedule, seed):
    """As if those rows had more kernels, where none runs beside its own launches."""
    numbers = np.random.default_rng(seed)
    ns, slower = np.zeros(len(schedule), np.int64), numbers.integers(1, 4, len(schedule))
    more = replace(schedule, kernels=schedule.kernels * slower)
    slowed, longer = Launches.of(schedule, ns, 7 * slower), Launches.of(more, ns, 7)
    assert (slowed is None) == (longer is None)
    if slowed is not None and longer is not None:
        assert slowed.after_ns.tolist() == longer.after_ns.tolist()
        assert slowed.length_ns.tolist() == longer.length_ns.tolist()


@examples(40)
@given(schedule=schedules(), launch_ns=st.integers(0, 5))
def test_nothing_uncertain_is_the_replay(schedule, launch_ns):
    cluster, costs = gpus(schedule.ranks), NsCosts(launch_ns)
    try:
        expected = replay(schedule, cluster, costs)
    except UserError:
        return
    trace = Draws.of(schedule, cluster, costs, CERTAIN, seed=0).trace(0)
    assert trace.start_ns.tolist() == expected.start_ns.tolist()
    assert trace.end_ns.tolist() == expected.end_ns.tolist()
    assert trace.device == expected.device


def test_a_draw_is_the_same_however_many_there_are():
    text = each(4, *STEP)
    uncertainty = Uncertainty(0.2, 0.1, Stragglers())
    many = drawn(text, 3, uncertainty, 9)
    assert drawn(text, 3, uncertainty, 4) == many[:4]
    assert len(set(many)) == 9


def test_stragglers_do_not_move_the_jitter():
    schedule, cluster = write(each(4, *STEP), 3).schedule, gpus(3)
    jittered = taken(Draws.of(schedule, cluster, NsCosts(), JITTER, 0), 1)
    slowed = taken(Draws.of(schedule, cluster, NsCosts(), replace(JITTER, stragglers=Stragglers(factor=2.0)), 0), 1)
    ranks = schedule.rank[slowed > jittered + 1]
    assert len(set(ranks.tolist())) == 1
    same = schedule.rank != ranks[0]
    assert (slowed[same] == jittered[same]).all()


def test_jitter_keeps_the_mean_of_a_rank_that_waits_for_nobody():
    """Rows follow one another: the mean of the sums is the sum of the means; 5 standard errors."""
    count, draws, ns, spread = 50, 400, 100_000, 0.2
    spans = drawn(each(count, f"a{{b}}: AGGREGATE@COMPUTE ns={ns}"), 1, Uncertainty(spread), draws)
    error = spread * ns * np.sqrt(count / draws)
    assert abs(np.mean(spans) - count * ns) < 5 * error
    assert np.std(spans) == pytest.approx(spread * ns * np.sqrt(count), rel=0.2)


@pytest.mark.slow
def test_ranks_wait_for_the_slowest():
    """Of two log-normal times with mean m and variance s^2 of the logarithm, the larger has mean 2 m Phi(s / sqrt 2)."""
    spread, ns, draws = 0.3, 1_000_000, 4000
    spans = drawn(f"b: BACKWARD@COMPUTE ns={ns}\nr: ALLREDUCE@COMM all bytes=0 <- b", 2, Uncertainty(spread), draws)
    s = np.sqrt(np.log1p(spread**2))
    assert np.mean(spans) == pytest.approx(2 * ns * (0.5 + 0.5 * erf(s / 2)), abs=5 * spread * ns / np.sqrt(draws))


def test_sway_is_of_a_rank_and_an_iteration():
    schedule = write(each(3, *STEP), 2).schedule
    draws = Draws.of(schedule, gpus(2), NsCosts(), Uncertainty(sway=0.4), 0)
    factor = taken(draws, 0)[schedule.collective < 0] / draws.uncontended.ns[schedule.collective < 0]
    place = list(zip(schedule.rank[schedule.collective < 0], schedule.iteration[schedule.collective < 0], strict=True))
    for one in set(place):
        own = [f for f, where in zip(factor, place, strict=True) if where == one]
        assert max(own) - min(own) < 0.06  # whole nanoseconds of 10
    assert len({round(f, 1) for f in factor}) > 2
    assert (taken(draws, 0)[schedule.collective >= 0] == draws.uncontended.ns[schedule.collective >= 0]).all()


def test_a_collective_has_one_duration():
    schedule = write(each(3, *STEP), 4).schedule
    ns = taken(Draws.of(schedule, gpus(4), NsCosts(), JITTER, 0), 0)
    rows = schedule.tasks(Op.ALLREDUCE)
    times = {collective: set(ns[rows][schedule.collective[rows] == collective]) for collective in set(schedule.collective[rows])}
    assert all(len(durations) == 1 for durations in times.values())
    assert len(set.union(*times.values())) > 1


@pytest.mark.parametrize("draw", range(6))
def test_a_straggler_in_a_chain_of_messages_delays_it_once(draw):
    straight = drawn(CHAIN, 3, CERTAIN)[0]
    assert straight == 3 * 1000 + 4 + 6
    assert drawn(CHAIN, 3, Uncertainty(stragglers=Stragglers(factor=1.7)), 6)[draw] == straight + 700


def test_an_all_reduce_an_iteration_makes_the_epoch_the_stragglers():
    copy, reduce = 100, 45  # 2 * 3/4 * 30 bytes
    spans = drawn(each(5, *STEP), 4, Uncertainty(stragglers=Stragglers(factor=3.0)), 8)
    assert spans == [copy + 5 * (3 * 1000 + reduce + 3 * 10)] * 8


def test_a_straggling_node_copies_slowly_too():
    text = "h: H2D@H2D ns=100\nb: BACKWARD@COMPUTE ns=1000 <- h"
    schedule = write(text, 8).schedule
    draws = Draws.of(schedule, gpus(8, 2), NsCosts(), Uncertainty(stragglers=Stragglers(3, "node", 2.0)), 0)
    slow = np.unique(schedule.rank[taken(draws, 0) == 2 * draws.uncontended.ns])
    assert len(slow) == 6
    assert set(slow // 2 * 2) == set(slow[::2])
    assert draws.span(0) == 2200
    gpu = Draws.of(schedule, gpus(8, 2), NsCosts(), Uncertainty(stragglers=Stragglers(3, factor=2.0)), 0)
    assert gpu.span(0) == 2100
    assert ((taken(gpu, 0) == 2 * gpu.uncontended.ns).sum(), (taken(draws, 0) == 2 * draws.uncontended.ns).sum()) == (3, 12)


def test_a_straggling_node_launches_slowly():
    text = each(3, "b{b}: BACKWARD@COMPUTE ns=1 kernels=10 iteration={b}")
    schedule, cluster = write(text, 2).schedule, gpus(2, 1)
    for of, span in (("node", 2 * 30 * 100), ("gpu", 30 * 100)):
        trace = Draws.of(schedule, cluster, NsCosts(100), Uncertainty(stragglers=Stragglers(1, of, 2.0)), 0).trace(0)
        assert trace.start_ns.max() == span


def test_jitter_of_launches_keeps_their_mean():
    text = each(50, "b{b}: BACKWARD@COMPUTE ns=0 kernels=10")
    spans = epoch_spans(write(text).schedule, gpus(1), NsCosts(1000), Uncertainty(0.2), 300, 0)
    first = 10 * 1000  # when the first row is launched, and the span begins
    assert np.mean(spans) == pytest.approx(50 * 10 * 1000 - first, abs=5 * 0.2 * 10_000 * np.sqrt(50 / 300))


def test_more_stragglers_than_gpus_are_all():
    assert drawn("b: BACKWARD@COMPUTE ns=1000", 2, Uncertainty(stragglers=Stragglers(9, factor=2.0)), 3) == [2000] * 3


def test_classes_compute_at_their_speed():
    text = "h: H2D@H2D ns=100\nb: BACKWARD@COMPUTE ns=1000 <- h"
    schedule = write(text, 4).schedule
    uncertainty = Uncertainty(classes=(DeviceClass(0.5, 0.8), DeviceClass(0.25, 2.0)))
    ns = taken(Draws.of(schedule, gpus(4), NsCosts(), uncertainty, 0), 0)
    assert ns[schedule.tasks(Op.BACKWARD)].tolist() == [1250, 1250, 500, 1000]
    assert ns[schedule.tasks(Op.H2D)].tolist() == [100] * 4
    assert not uncertainty.random


def test_the_middle_draw_is_the_lower_median():
    assert middle_draw(np.array([5, 9, 1, 7])) == 0
    assert middle_draw(np.array([5, 9, 1])) == 0
    assert middle_draw(np.array([4])) == 0


@pytest.mark.parametrize(
    "made, said",
    [
        (lambda: Uncertainty(-0.1), "jitter: expected a relative spread of at least 0, got -0.1"),
        (lambda: Uncertainty(sway=float("nan")), "sway: expected a relative spread of at least 0, got nan"),
        (lambda: Stragglers(0), "stragglers: count: expected at least 1, got 0"),
        (lambda: Stragglers(factor=0.5), "stragglers: factor: expected a finite number of at least 1, got 0.5"),
        (lambda: DeviceClass(0.0, 1.0), "classes: share: expected more than 0 and at most 1, got 0.0"),
        (lambda: DeviceClass(0.5, 0.0), "classes: speed: expected a finite number above 0, got 0.0"),
        (lambda: Uncertainty(classes=(DeviceClass(0.6, 1), DeviceClass(0.5, 1))), "classes: their shares add up to 1.1, more than 1"),
    ],
)
def test_what_is_stated_wrongly_is_refused(made, said):
    with pytest.raises(UserError) as error:
        made()
    assert str(error.value) == said


def test_what_is_stated_is_told_in_words():
    stated = Uncertainty(0.05, 0.1, Stragglers(2, "node", 1.5), (DeviceClass(0.5, 0.8),))
    assert str(stated) == "jitter 0.05, sway 0.1, 2 nodes 1.5 times as slow, 50% of the GPUs at 0.8 of the speed"
    assert str(CERTAIN) == ""


LEVEL = Fit("AGGREGATE", 0, "bytes", (0.0, 1e6), {"bytes": 0}, {"bytes": 1}, 0.1, 8, spread=0.1)
SEEN = Uncertainty("fitted", "fitted")


@pytest.mark.slow
def test_what_repeats_have_shown_varies_as_it_did_and_leaves_sums_alone():
    text = "\n".join(f"a{i}: AGGREGATE@COMPUTE iteration={i // 100}" for i in range(400))
    schedule = write(text, ranks=2).schedule
    costs = FittedCosts("d", (LEVEL,), {}, sway=0.05, extrapolate=True)
    factors = np.stack([Draws.of(schedule, gpus(2), costs, SEEN, 0).factors(draw)[0] for draw in range(300)])
    assert factors.mean() == pytest.approx(1, rel=0.005)
    assert factors.std() == pytest.approx(np.hypot(0.1, 0.05), rel=0.03)
    total = factors[:, schedule.rank == 0][:, :100].sum(1)  # one iteration: what its rows share does not average out
    assert total.std() / 100 == pytest.approx(np.hypot(0.05, 0.1 / 10), rel=0.15)
    without_spread = replace(costs, sway=0.0, fits=(replace(LEVEL, spread=0.0),))
    assert (Draws.of(schedule, gpus(2), without_spread, SEEN, 0).factors(3)[0] == 1).all() and not without_spread.jitters and costs.jitters


def test_only_fitted_costs_say_how_much_rows_vary():
    schedule = write("a: AGGREGATE@COMPUTE").schedule
    with pytest.raises(UserError, match="was not fitted, so no repeats say how much rows vary; state it as a number"):
        Draws.of(schedule, gpus(1), NsCosts(1), SEEN, 0)
    assert str(SEEN) == "jitter fitted, sway fitted"
