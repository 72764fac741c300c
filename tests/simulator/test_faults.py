from __future__ import annotations

import time
from math import exp

import numpy as np
import pytest
from fault_oracle import Told
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, each, gpus, write

from chronoscale.errors import UserError
from chronoscale.simulator.engine import replay
from chronoscale.simulator.failures.fault_plan import FailurePositions, FaultPlan, TaskFailure
from chronoscale.simulator.failures.pace import Pace
from chronoscale.simulator.failures.training import TrainingResult, simulate_training

S = 10**9
TEN = Pace(np.arange(1, 11) * S)  # ten iterations of a second


def fewer(least: int = 1, iterations: int = 40):
    """An epoch of `iterations` seconds of one rank's work, dealt to as many as there are; none below `least`."""

    def on(ranks: int) -> Pace | None:
        return None if ranks < least else Pace(np.arange(1, -(-iterations // ranks) + 1) * S)

    return on


def plan(policy="restart", every=4, **more) -> FaultPlan:
    return FaultPlan(policy, every, **{"checkpoint_s": 0.5, "detect_s": 2.0, "restart_s": 3.0, **more})


def check(found: TrainingResult, ranks: int, policy: str) -> None:
    """What holds of every outcome."""
    assert found.ns == found.useful_ns + found.writing_ns + found.lost_ns
    assert min(found.ns, found.useful_ns, found.writing_ns, found.lost_ns) >= 0
    assert 0 <= found.done <= 1 and (found.done == 1) == (found.ended == "trained")
    allowed = {"restart": ("trained", "endless"), "shrink": ("trained", "too few ranks", "endless"), "stop": ("trained", "stopped")}
    assert found.ended in allowed[policy]
    if policy == "shrink":
        assert found.ranks == ranks - found.failures
    else:
        assert found.ranks == ranks
    if policy == "stop":
        assert found.failures == (found.ended == "stopped") and found.restarts == 0
    assert found.restarts <= found.failures
    assert found.lost_ns == 0 or found.failures


def test_without_failures_there_are_iterations_and_checkpoints():
    result = simulate_training(plan(), TEN, ranks=8, epochs=3)
    assert result == TrainingResult("trained", 30 * S + 7 * S // 2, 30 * S, 7 * S // 2, 0, 0, 0, 8, 1.0)
    assert simulate_training(plan(every=30), TEN, 8, 3).writing_ns == 0  # none behind the last iteration
    assert simulate_training(plan(every=29), TEN, 8, 3).writing_ns == S // 2


def test_a_restart_does_again_what_no_checkpoint_holds():
    """Nine iterations are over at 10 s, two checkpoints among them: at 4.5 s and at 9 s."""
    result = simulate_training(plan(times_s=(9.7,)), TEN, ranks=8, epochs=1)
    assert result.lost_ns == 5_700_000_000
    assert (result.ns, result.failures, result.restarts) == (10 * S + S + result.lost_ns, 1, 1)


def test_a_failure_while_a_checkpoint_is_written_is_before_it():
    assert simulate_training(plan(times_s=(4.4,)), TEN, 8, 1).lost_ns == 9_400_000_000
    assert simulate_training(plan(times_s=(4.5,)), TEN, 8, 1).lost_ns == 5 * S  # it is whole at that instant
    assert simulate_training(plan(times_s=(11.0,)), TEN, 8, 1).failures == 0  # so is the training


def test_a_failure_in_recovery_begins_it_anew():
    result = simulate_training(plan(times_s=(1.0, 5.0, 10.0)), TEN, 8, 1)
    assert result.lost_ns == (1 + 4 + 5 + 0 + 5) * S  # the third comes as soon as the second is over
    assert (result.failures, result.restarts) == (3, 2)


def test_stop_is_the_end():
    result = simulate_training(plan("stop", times_s=(9.7, 12.0)), TEN, 8, 1)
    assert result == TrainingResult("stopped", 9_700_000_000, 8 * S, S, 700_000_000, 1, 0, 8, 0.8)


def test_fewer_ranks_take_the_share_that_was_trained():
    """Four ranks do an epoch of 40 in 10 iterations, three in 14: 8 of 10 are 11 of 14."""
    result = simulate_training(plan("shrink", times_s=(9.7,)), fewer()(4), 4, 1, on=fewer())
    assert (result.ended, result.ranks) == ("trained", 3)
    assert result.ns == 14_700_000_000 + 3 * S + S // 2  # a checkpoint behind the twelfth
    assert result.useful_ns == (8 + 3) * S


def test_the_last_ranks_go():
    assert simulate_training(plan("shrink", times_s=(1.0, 2.0)), fewer()(2), 2, 9, on=fewer()).ended == "too few ranks"
    result = simulate_training(plan("shrink", times_s=(1.0,)), fewer()(4), 4, 9, on=fewer(4))
    assert (result.ended, result.ranks, result.ns) == ("too few ranks", 3, 6 * S)


@pytest.mark.parametrize("policy", ["restart", "stop", "shrink"])
def test_every_task_may_be_the_one(policy):
    """A failure half way through each task of a schedule, in the second epoch, ends as documented."""
    text = each(4, "h{b}: H2D@H2D ns=7 iteration={b}", "b{b}: BACKWARD@COMPUTE ns=20 iteration={b} <- h{b}",
                "r{b}: ALLREDUCE@COMM all bytes=30 iteration={b} <- b{b}", "o{b}: OPTIMIZE@COMPUTE ns=4 iteration={b} <- r{b}")  # fmt: skip
    schedule = write(text, 3).schedule
    trace = replay(schedule, gpus(3), NsCosts())
    pace, straight = Pace.of(schedule, trace), 3 * trace.span_ns
    assert pace.ends.tolist() == [trace.end_ns[schedule.iteration == i].max() for i in range(4)]
    for task in range(len(schedule)):
        fault_plan = FaultPlan(policy, 1, detect_s=1e-6, tasks=(TaskFailure(1, task),))
        result = simulate_training(fault_plan, pace, 3, 3, FailurePositions.of(fault_plan, schedule, trace), on=lambda ranks: pace)
        when = trace.span_ns + int(trace.start_ns[task] + trace.end_ns[task]) // 2
        check(result, 3, policy)
        assert result.failures == 1
        if policy == "stop":
            assert result.ns == when
        else:
            back = [0, *(trace.span_ns * epoch + int(end) for epoch in range(3) for end in pace.ends)]
            lost = when - max(end for end in back if end <= when)
            assert result.ns == straight + lost + 1000


@st.composite
def plans(draw) -> tuple[FaultPlan, list[int], int, int, FailurePositions]:
    lengths = [ns * 1000 for ns in draw(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any))]
    ranks, epochs = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    seconds = st.integers(0, 40).map(lambda us: us * 1e-6)
    total = sum(lengths) * epochs
    tasks = draw(st.lists(st.tuples(st.integers(0, epochs * len(lengths) - 1), st.floats(0, 0.99)), max_size=3))
    at = sorted((done, int(share * lengths[done % len(lengths)])) for done, share in tasks if lengths[done % len(lengths)])
    fault_plan = FaultPlan(
        draw(st.sampled_from(["restart", "shrink", "stop"])),
        draw(st.integers(1, 9)),
        draw(seconds),
        draw(seconds),
        draw(seconds),
        draw(st.sampled_from([None, 1e-9 * total, 1e-9 * total * ranks, 1e-8 * total * ranks])),
        tuple((1000 * us + 1 + us % 97) * 1e-9 for us in draw(st.lists(st.integers(1, 4 * total // 1000), max_size=4, unique=True))),
    )
    return fault_plan, np.cumsum(lengths).tolist(), ranks, epochs, FailurePositions(tuple(at))


@given(given=plans(), seed=st.integers(0, 10**6))
def test_simpy_tells_the_same(given, seed):
    """On times that do not meet: what happens at one instant may come in another order there."""
    fault_plan, ends, ranks, epochs, points = given
    total = ends[-1]

    def on(fewer: int) -> Pace | None:
        return None if fewer == 1 and ranks > 3 else Pace(1000 * np.arange(1, -(-total // (1000 * fewer)) + 1))

    result = simulate_training(fault_plan, Pace(np.array(ends)), ranks, epochs, points, on, seed, most=100)
    check(result, ranks, fault_plan.policy)
    reference = Told(fault_plan, ends, ranks, epochs, points, on, seed, most=100)
    assert (result.ended, result.failures, result.restarts, result.ranks) == (
        reference.ended,
        reference.failures,
        reference.restarts,
        reference.ranks,
    )
    assert result.ns == reference.env.now


def random_training(numbers: np.random.Generator) -> tuple[str, int, TrainingResult]:
    ends = np.cumsum(numbers.integers(1, 10**6, numbers.integers(1, 30)))
    ranks, epochs = int(numbers.integers(1, 64)), int(numbers.integers(1, 20))
    policy, span, least = str(numbers.choice(["restart", "shrink", "stop"])), float(ends[-1]) * 1e-9, int(numbers.integers(1, ranks + 1))
    fault_plan = FaultPlan(
        policy,
        int(numbers.integers(1, 50)),
        *(numbers.exponential(span, 3) * numbers.integers(0, 2, 3)).tolist(),
        mtbf_s=float(span * ranks * 10 ** numbers.uniform(-3, 3)) if numbers.random() < 0.7 else None,
        times_s=tuple(numbers.uniform(0, 3 * span * epochs, numbers.integers(0, 4)).tolist()),
    )
    at = FailurePositions(tuple(sorted((int(numbers.integers(0, len(ends) * epochs)), 0) for _ in range(numbers.integers(0, 3)))))
    return (
        policy,
        ranks,
        simulate_training(fault_plan, Pace(ends), ranks, epochs, at, lambda few: Pace(ends) if few >= least else None, most=200),
    )


@pytest.mark.slow
def test_ten_thousand_random_plans_end_and_end_as_documented():
    numbers, begun, ended = np.random.default_rng(0), time.process_time(), set()
    for _ in range(10_000):
        policy, ranks, result = random_training(numbers)
        check(result, ranks, policy)
        ended.add(result.ended)
    assert ended == {"trained", "stopped", "too few ranks", "endless"}
    assert time.process_time() - begun < 60


def test_devices_that_fail_sooner_than_an_iteration_is_over_never_train():
    result = simulate_training(plan(mtbf_s=0.01), TEN, 64, 1)
    assert (result.ended, result.failures, result.useful_ns) == ("endless", 10_000, 0)


def test_random_failures_cost_what_daly_says():
    """Expected time of a stretch t between checkpoints, with recovery r, of a machine that fails every m: m e^(r/m) (e^(t/m) - 1)
    (Daly, A higher order estimate of the optimum checkpoint interval, FGCS 22, 2006, eq. 13)."""
    ranks, mtbf, epochs = 16, 16 * 40.0, 2
    fault_plan = plan(every=5, mtbf_s=mtbf)
    seconds = [simulate_training(fault_plan, TEN, ranks, epochs, draw=k).ns / S for k in range(3000)]
    machine, stretches = mtbf / ranks, [5.5, 5.5, 5.5, 5.0]
    expected = sum(machine * exp(5 / machine) * (exp(t / machine) - 1) for t in stretches)
    assert np.mean(seconds) == pytest.approx(expected, abs=5 * np.std(seconds) / np.sqrt(len(seconds)))


def test_draws_fail_at_other_times_and_seeds_are_kept():
    fault_plan = plan(mtbf_s=100.0)
    results = [simulate_training(fault_plan, TEN, 8, 4, seed=seed, draw=draw) for seed, draw in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert results[0] == results[3]
    assert len({result.ns for result in results}) == 3


@pytest.mark.parametrize(
    "made, said",
    [
        (lambda: plan(every=0), "failures: every: expected at least 1 iteration, got 0"),
        (lambda: plan(mtbf_s=0.0), "failures: mtbf_s: expected a finite number above 0, got 0.0"),
        (lambda: plan(detect_s=-1.0), "failures: detect_s: expected a finite number of at least 0, got -1.0"),
        (lambda: plan(times_s=(1.0, float("inf"))), "failures: times_s: expected a finite number of at least 0, got inf"),
    ],
)
def test_plans_that_cannot_be_are_refused(made, said):
    with pytest.raises(UserError) as error:
        made()
    assert str(error.value) == said


def test_a_task_that_is_not_there():
    schedule = write("b: BACKWARD@COMPUTE ns=9", 2).schedule
    with pytest.raises(UserError) as error:
        FailurePositions.of(plan(tasks=(TaskFailure(0, 2),)), schedule, replay(schedule, gpus(2), NsCosts()))
    assert str(error.value) == "failures: tasks: no task 2 in epoch 0: 'test' on 2 ranks has 2"
